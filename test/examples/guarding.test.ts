import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const script = fileURLToPath(new URL('../../examples/main.mjs', import.meta.url))

/** Runs an example as `npm run example` does, but for the build. */
function example(...args: string[]): Promise<{ code: number; said: string }> {
  return new Promise(resolve => {
    execFile(process.execPath, [script, ...args], (error, stdout, stderr) => {
      resolve({ code: error ? Number(error.code ?? -1) : 0, said: stdout + stderr })
    })
  })
}

test('fenced-store: the stale write is refused', { timeout: 60_000 }, async () => {
  const { code, said } = await example('fenced-store')
  expect(code, said).toBe(0)
  expect(said).toContain('stale_token')
})

test('last-item: each way sells it once', { timeout: 90_000 }, async () => {
  const { code, said } = await example('last-item')
  expect(code, said).toBe(0)
  expect(said.match(/ 1 +\d+ ms/g)).toHaveLength(4)
})

test('paused-holder: the exact ways lose nothing, even in a short run', { timeout: 120_000 }, async () => {
  const { code, said } = await example('paused-holder', '--seconds', '3')
  expect([0, 2], said).toContain(code)
  expect(said.match(/ 0 +\d+ {3}exact/g), said).toHaveLength(2)
})

test('no such example, no such length', { timeout: 60_000 }, async () => {
  expect(await example('nothing')).toMatchObject({ code: 64, said: expect.stringContaining('paused-holder') })
  expect(await example('paused-holder', '--seconds', 'many')).toMatchObject({ code: 64 })
})
