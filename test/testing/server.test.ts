import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { prepared } from '../../src/testing/binaries.ts'
import { type PostgresServer, startPostgres } from '../../src/testing/server.ts'
import { Child } from '../support/child.ts'
import { startTestPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startTestPostgres({ settings: { application_name: "it's a \\ test", work_mem: '5MB' } })
})
afterAll(() => server.end())

async function ask<T>(text: string, url: string = server.url): Promise<T> {
  const client = new pg.Client(url)
  client.on('error', () => {})
  await client.connect()
  try {
    return Object.values((await client.query(text)).rows[0] ?? {})[0] as T
  } finally {
    await client.end()
  }
}

test('is durable, and takes settings as they are', async () => {
  expect(await ask('show fsync')).toBe('on')
  expect(await ask('show work_mem')).toBe('5MB')
  expect(await ask("select reset_val from pg_settings where name = 'application_name'")).toBe(
    "it's a \\ test",
  )
})

test('lets nobody in without its password', async () => {
  const stranger = new URL(server.url)
  stranger.password = 'guess'
  await expect(ask('select 1', stranger.href)).rejects.toMatchObject({ code: '28P01' })
})

test('stops, starts on the same port with the same data, and restarts', async () => {
  await ask('create table kept as select 42 as answer')
  const { pid, port } = server
  await server.stop('fast')
  expect(server.pid).toBeUndefined()
  await expect(ask('select 1')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  await server.stop()
  await server.start()
  expect([server.port, server.pid === pid]).toEqual([port, false])
  expect(await ask('select answer from kept')).toBe(42)
  await server.restart('immediate')
  expect(await ask('select answer from kept')).toBe(42)
  expect(readFileSync(server.logFile, 'utf8')).toContain('immediate shutdown')
})

test('smart waits for the clients, fast does not', async () => {
  const client = new pg.Client(server.url)
  client.on('error', () => {})
  await client.connect()
  let stopped = false
  const stopping = server.stop('smart').then(() => {
    stopped = true
  })
  await until(() => readFileSync(server.logFile, 'utf8').includes('smart shutdown'))
  expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  expect(stopped).toBe(false)
  await client.end()
  await stopping
  await server.start()
})

test('ends without a trace', async () => {
  const other = await startTestPostgres()
  const { pid = 0, dataDir } = other
  await other.end()
  expect(existsSync(dirname(dataDir))).toBe(false)
  expect(running(pid)).toBe(false)
  await other.end()
})

test('keeps a data folder that the caller named, and starts on it again', async () => {
  const dataDir = join(tmpdir(), `fencepost-kept-${randomUUID()}`)
  await using first = await startTestPostgres({ dataDir })
  await ask('create table kept as select 7 as answer', first.url)
  await first.end()
  await using second = await startTestPostgres({ dataDir })
  expect(await ask('select answer from kept', second.url)).toBe(7)
  await second.end()
  rmSync(dataDir, { recursive: true })
})

test('says why it does not start', async () => {
  const refused = startTestPostgres({ settings: { max_connections: 'many' } })
  await expect(refused).rejects.toThrow(/pg_ctl failed.*invalid value for parameter "max_connections"/s)
  await expect(startPostgres({ binDir: '/nowhere' })).rejects.toThrow('initdb failed')
})

for (const end of ['SIGINT', 'SIGKILL', 'exception', 'exit'] as const) {
  test(`leaves nothing when its process ends by ${end}`, async () => {
    const owner = new Child(new URL('./owner.mjs', import.meta.url), { env: { BIN_DIR: server.binDir } })
    const { pid, dataDir } = await owner.message('started', { within: 20_000 })
    if (end.startsWith('SIG')) await owner.kill(end as NodeJS.Signals)
    else owner.send(end)
    await owner.exit
    await until(() => !existsSync(dirname(String(dataDir))), { within: 15_000 })
    expect(running(Number(pid))).toBe(false)
  })
}

// A process that has ended stays in the table until init reaps it.
function running(pid: number): boolean {
  try {
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')
  } catch {
    return false
  }
}

test.runIf(process.getuid?.() === 0)('runs from a checkout that only root can enter', async () => {
  const closed = mkdtempSync(join(tmpdir(), 'fencepost-closed-'))
  cpSync(dirname(server.binDir), join(closed, 'native'), { recursive: true, verbatimSymlinks: true })
  await using other = await startPostgres({ binDir: join(closed, 'native', 'bin') })
  rmSync(closed, { recursive: true })
  await other.restart()
  expect(await ask('select 1', other.url)).toBe(1)
})

test('makes the library links that a blocked install script left out', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-unlinked-'))
  const native = join(folder, 'native')
  cpSync(dirname(server.binDir), native, { recursive: true, verbatimSymlinks: true })
  const links = readdirSync(join(native, 'lib')).filter(name =>
    lstatSync(join(native, 'lib', name)).isSymbolicLink(),
  )
  for (const name of links) rmSync(join(native, 'lib', name))
  chmodSync(join(native, 'bin', 'initdb'), 0o644)
  const initdb = join(prepared(native), 'initdb')
  expect(execFileSync(initdb, ['--version'], { encoding: 'utf8' })).toContain('initdb (PostgreSQL)')
  expect(links.length).toBeGreaterThan(0)
  rmSync(folder, { recursive: true })
})
