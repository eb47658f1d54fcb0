// Servers that crash, restart, and are copied: each is another incarnation, also where nothing but the canary tells.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { migrate } from '../../src/index.ts'
import type { PostgresServer } from '../../src/testing/server.ts'
import { asAdmin } from '../support/admin.ts'
import { createDatabase } from '../support/database.ts'
import { startTestPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { Actor } from './support/actor.ts'
import { type Incarnation, incarnation, step } from './support/incarnation.ts'
import { Stage } from './support/stage.ts'

let server: PostgresServer
let stage: Stage
let before: Incarnation & { startedAt: unknown }
let key: string
let token: bigint
let holder: Actor

beforeAll(async () => {
  server = await startTestPostgres()
  stage = await Stage.create({ adminUrl: server.url })
})
afterAll(() => server.end())

/** Somebody holds a key. */
beforeEach(async () => {
  await stage.clear()
  key = stage.key()
  holder = await stage.actor('holder')
  token = (await holder.acquire(key)).token ?? 0n
  before = { ...(await incarnation(stage)), startedAt: await startedAt() }
})

const startedAt = async () => (await stage.sql('select pg_postmaster_start_time()::text as at'))[0]?.at
const isUp = () => until(() => startedAt(), { within: 20_000, what: 'the server takes connections again' })

/** Kills one backend, as the kernel does when memory is short: the server starts all others anew. */
async function killBackend(): Promise<void> {
  const victim = await stage.actor('victim', null)
  process.kill(victim.pid, 'SIGKILL')
  await until(async () => !(await alive(holder)), { what: 'the crash has ended the other backends' })
  await isUp()
}

const alive = async (actor: Actor) =>
  actor.sql('select 1').then(
    () => true,
    () => false,
  )

/** The first call: a tick of somebody new, that would reap if it could. */
async function firstCall(): Promise<Incarnation> {
  await stage.sql(`update $schema.sessions set expires_at = clock_timestamp() - interval '1 hour'`)
  await stage.reapDue()
  await (await stage.actor('first', null)).tick()
  return await incarnation(stage)
}

async function expectGrace(): Promise<void> {
  expect(await stage.lock(key)).toMatchObject({ session: holder.session, token })
  const session = await stage.session(holder)
  expect(session?.dead).toBe(false)
  expect(session?.left).toBeGreaterThan(20_000)
  expect(session?.left).toBeLessThanOrEqual(30_000)
}

async function expectHigherTokens(): Promise<void> {
  const next = await stage.actor('next')
  expect((await next.acquire(stage.key())).token).toBeGreaterThanOrEqual(token + step / 2n)
}

test('a crash of one backend leaves the start time, and is told by the canary alone', async () => {
  await killBackend()
  expect(await startedAt()).toBe(before.startedAt)
  expect(await incarnation(stage)).toMatchObject({ boot: before.boot, canary: null, base: before.base })
  const after = await firstCall()
  expect(after.boot).not.toBe(before.boot)
  expect(after.canary).toBe(after.boot)
  expect(after.base).toBeGreaterThanOrEqual(before.base + step)
  await expectGrace()
  await expectHigherTokens()
})

test('a crash of the whole server empties the canary', async () => {
  await server.restart('immediate')
  await isUp()
  expect(await incarnation(stage)).toMatchObject({ boot: before.boot, canary: null })
  const after = await firstCall()
  expect(after.boot).not.toBe(before.boot)
  expect(after.base).toBeGreaterThanOrEqual(before.base + step)
  await expectGrace()
  await expectHigherTokens()
})

test('a restart in good order keeps the canary, and is told by the start time', async () => {
  await server.restart('fast')
  await isUp()
  expect(await incarnation(stage)).toMatchObject({ boot: before.boot, canary: before.boot })
  expect(await startedAt()).not.toBe(before.startedAt)
  const after = await firstCall()
  expect(after.boot).not.toBe(before.boot)
  expect(after.base).toBeGreaterThanOrEqual(before.base + step)
  await expectGrace()
  await expectHigherTokens()
})

test('a second crash is another incarnation again', async () => {
  await killBackend()
  const one = await firstCall()
  holder = await stage.actor('holder again')
  await killBackend()
  const other = await firstCall()
  expect(other.boot).not.toBe(one.boot)
  expect(other.base).toBeGreaterThanOrEqual(one.base + step)
})

/** Of what was copied, commits may be gone; then max_ttl has passed. */
async function endsQuarantine(actor: Actor): Promise<void> {
  expect((await actor.acquire('k', { wait: false })).outcome).toBe('busy')
  await actor.sql('update $schema.cluster set quarantined_until = null')
}

/** Somebody in another database of this server, with no session yet. */
async function strangerIn(name: string): Promise<Actor> {
  const url = new URL(stage.db.url)
  url.pathname = `/${name}`
  const actor = new Actor({ url: url.href, schema: stage.db.schema }, 'stranger')
  await actor.connect()
  return actor
}

test('a copy of the database in the same server is another incarnation, and the original is not', async () => {
  const copy = `${stage.db.name}_copy`
  const last = await holder.acquire(stage.key())
  await asAdmin(server.url, async admin => {
    await admin.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1', [
      stage.db.name,
    ])
    await admin.query(`create database ${copy} template ${stage.db.name}`)
  })
  const stranger = await strangerIn(copy)
  // All that a copy of the files carries along: the row, the canary, the table's oid, the sequence.
  expect(await incarnation(stranger)).toEqual({ boot: before.boot, canary: before.boot, base: before.base })
  await stranger.open()
  const after = await incarnation(stranger)
  expect(after.boot).not.toBe(before.boot)
  await endsQuarantine(stranger)
  expect((await stranger.acquire('k')).token).toBeGreaterThan((last.token ?? 0n) + step / 2n)
  await stranger.end()
  await (await stage.actor('first', null)).tick()
  expect((await incarnation(stage)).boot).toBe(before.boot)
  await asAdmin(server.url, admin => admin.query(`drop database ${copy}`))
})

test('a restored dump is another incarnation, though all its rows and numbers are as they were', async () => {
  const tables = ['cluster', 'canary', 'sessions', 'locks', 'waiters']
  const dump = new Map<string, unknown>()
  for (const table of tables) {
    const [row] = await stage.sql(`select coalesce(json_agg(t), '[]')::text as rows from $schema.${table} t`)
    dump.set(table, row?.rows)
  }
  const [sequence] = await stage.sql('select last_value from $schema.fencing')
  const later = await holder.acquire(stage.key())

  const restored = await createDatabase({ adminUrl: server.url, migrate: false })
  await migrate({ connection: restored.url, schema: stage.db.schema })
  const stranger = await strangerIn(restored.name)
  for (const table of tables) {
    await stranger.sql(`delete from $schema.${table}`)
    await stranger.sql(
      `insert into $schema.${table} overriding system value
       select * from json_populate_recordset(null::$schema.${table}, $1)`,
      [dump.get(table)],
    )
  }
  // Such a server may well have the oid again, of a database that was dropped.
  await stranger.sql(
    `update $schema.cluster set database_oid = (select oid from pg_database where datname = current_database())`,
  )
  await stranger.sql(`select setval('$schema.fencing', $1)`, [sequence?.last_value])
  expect(await incarnation(stranger)).toEqual({ boot: before.boot, canary: before.boot, base: before.base })
  expect(await stranger.sql('select key, token from $schema.locks')).toEqual([{ key, token: String(token) }])
  await stranger.open()
  expect((await incarnation(stranger)).boot).not.toBe(before.boot)
  await endsQuarantine(stranger)
  expect((await stranger.acquire('k')).token).toBeGreaterThan((later.token ?? 0n) + step / 2n)
  await stranger.end()
  await restored.drop()
})
