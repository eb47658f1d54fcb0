import { spawn } from 'node:child_process'
import { connect } from 'node:net'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { until } from '../support/until.ts'

const script = fileURLToPath(new URL('../../examples/quickstart/main.mjs', import.meta.url))
const patience = 90_000

/** Runs the quickstart as `npm run quickstart` does, but for the build. */
function quickstart(...args: string[]) {
  const child = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', text => (said += text))
  const ended = new Promise<number | NodeJS.Signals>(resolve => {
    child.once('close', (code, signal) => resolve(signal ?? code ?? -1))
  })
  return { child, ended, said: () => said }
}

describe('the quickstart', () => {
  test('observes all that it tells, and exits 0', { timeout: patience }, async () => {
    const { ended, said } = quickstart()
    expect(await ended, said()).toBe(0)
    const verdict = said().slice(said().indexOf('Observed:'))
    expect(verdict.match(/^ {2}yes {2}/gm)).toHaveLength(6)
    expect(verdict).toContain('refused: FP002')
    expect(verdict).not.toMatch(/^ {2}NO/m)
  })

  test('without the fence it exits 1 and says what was not seen', { timeout: patience }, async () => {
    const { ended, said } = quickstart('--without-fence')
    expect(await ended, said()).toBe(1)
    const failed = said()
      .split('\n')
      .filter(line => line.startsWith('  NO'))
    expect(failed).toEqual([
      '  NO   the write with the old token was refused: accepted',
      '  NO   no update is lost: 7 writes were acknowledged, and the counter says 6',
    ])
  })

  test('Ctrl-C ends all that it started, a worker that stands still among them', {
    timeout: patience,
  }, async () => {
    const { child, ended, said } = quickstart()
    await until(() => said().includes('stands still'), { within: 60_000, what: 'the third scene' })
    child.kill('SIGINT')
    expect(await ended, said()).toBe(130)

    const workers = [...said().matchAll(/(?:Ada|Ben|Cleo) \(pid (\d+)\)/g)].map(match => Number(match[1]))
    expect(new Set(workers).size).toBe(3)
    for (const pid of workers) expect(() => process.kill(pid, 0)).toThrow('ESRCH')
    const port = Number(said().match(/port (\d+)/)?.[1])
    await expect(connected(port)).rejects.toThrow('ECONNREFUSED')
  })
})

function connected(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve()
    }).once('error', reject)
  })
}
