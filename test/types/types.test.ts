import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const run = promisify(execFile)

// Inside the project, where the compiler finds the types of Node and of the driver.
let folder: string
beforeAll(() => {
  const cache = join(root, 'node_modules/.cache')
  mkdirSync(cache, { recursive: true })
  folder = mkdtempSync(join(cache, 'fencepost-types-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Compiles a program against the published declarations; answers what the compiler says. */
async function compile(program: string, options: object = {}): Promise<string> {
  writeFileSync(join(folder, 'program.mts'), program)
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({
      compilerOptions: {
        strict: true,
        exactOptionalPropertyTypes: true,
        noEmit: true,
        target: 'es2023',
        lib: ['es2023', 'esnext.disposable'],
        module: 'nodenext',
        types: ['node'],
        ...options,
      },
      files: ['program.mts'],
    }),
  )
  try {
    await run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', folder])
    return ''
  } catch (error) {
    return (error as { stdout: string }).stdout
  }
}

const declarations = JSON.stringify(join(root, 'dist/index.js'))
const publicTypes = readFileSync(join(import.meta.dirname, 'public.ts'), 'utf8')
  .replace("'../../src/index.ts'", declarations)
  .replace("'../../src/kysely.ts'", JSON.stringify(join(root, 'dist/kysely.js')))

test('the published types are what public.ts says of them', async () => {
  expect(publicTypes).toContain('dist/index.js')
  expect(publicTypes).toContain('dist/kysely.js')
  expect(await compile(publicTypes, { skipLibCheck: true })).toBe('')
}, 60_000)

test('the published types stand on their own, whatever the reader’s compiler checks', async () => {
  const program = `import * as fencepost from ${declarations}\nvoid fencepost.Fencepost\n`
  const own = (said: string) => said.split('\n').filter(line => line.includes('dist/'))
  expect(own(await compile(program, { skipLibCheck: false, exactOptionalPropertyTypes: false }))).toEqual([])
}, 60_000)

test('internals are not published', async () => {
  const said = await compile(
    `import { type Lock } from ${declarations}\ndeclare const lock: Lock\nlock.lose('forced')\nlock.announceShutdown()\nlock.requestId\n`,
    { skipLibCheck: true },
  )
  expect(said.match(/error TS2339/g)).toHaveLength(3)
}, 60_000)
