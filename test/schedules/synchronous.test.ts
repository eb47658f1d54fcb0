// Under synchronous replication an answer that says "you hold" has been replicated: a commit whose wait was broken off
// is an unknown outcome, a repeated question waits again, and a primary that is cut off renews nobody.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import type { PostgresServer } from '../../src/testing/server.ts'
import { nothing } from '../support/leftovers.ts'
import { startTestPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { Stage } from './support/stage.ts'
import { watched } from './support/watched.ts'

let server: PostgresServer
let stage: Stage
const clients: Fencepost[] = []

beforeAll(async () => {
  server = await startTestPostgres()
  stage = await Stage.create({ adminUrl: server.url })
  await stage.sql('create table probes (at timestamptz)')
})
afterEach(async () => {
  await attach()
  await Promise.all(clients.splice(0).map(client => client.close()))
  expect(await stage.clear()).toEqual(nothing)
})
afterAll(() => server.end())

function client(ttl: string): Fencepost {
  const made = new Fencepost({ pool: stage.db.pool(), schema: stage.db.schema, ttl })
  clients.push(made)
  return made
}

/** From now on commits wait for a standby that is not there. */
async function cutOff(): Promise<void> {
  await stage.sql(`alter system set synchronous_standby_names = 'nobody'`)
  await stage.sql('select pg_reload_conf()')
  const probe = await stage.actor('probe', null)
  // The server's processes learn of it one by one.
  await until(async () => {
    const commit = watched(probe.sql('insert into probes values (now())'))
    await until(async () => commit.state !== 'open' || (await waiting(probe.pid)))
    if (commit.state !== 'open') return false
    await stage.sql('select pg_cancel_backend($1)', [probe.pid])
    await commit.promise
    return true
  })
}

/** Ends {@link cutOff}: what waits is let go. */
async function attach(): Promise<void> {
  await stage.sql('alter system reset synchronous_standby_names')
  await stage.sql('select pg_reload_conf()')
  await (await stage.actor('probe', null)).sql('insert into probes values (now())')
}

/** The backend that waits for the standby, by its pid or application_name. */
async function waiting(who: number | string): Promise<number | undefined> {
  const [row] = await stage.sql(
    `select pid from pg_stat_activity where wait_event = 'SyncRep' and (pid::text = $1 or application_name = $1)`,
    [String(who)],
  )
  return row?.pid
}

test('a grant whose wait was broken off is not believed until its repetition has been replicated', async () => {
  const fp = client('20s')
  await (await fp.acquire('warm')).release()
  const key = stage.key()
  await cutOff()
  const asked = watched(fp.acquire(key))
  const first = await until(() => waiting('fencepost ask'))
  // The server answers "granted", beside a warning.
  await stage.sql('select pg_cancel_backend($1)', [first])
  await until(() => stage.lock(key))
  await until(async () => ![first, undefined].includes(await waiting('fencepost ask')), {
    what: 'it asks again, on another connection',
  })
  expect(asked.state).toBe('open')
  await attach()
  const lock = await asked.promise
  expect(await stage.lock(key)).toMatchObject({ token: lock.token })
  expect(await stage.sql('select key from $schema.locks')).toEqual([{ key }])
  await lock.release()
})

test('a repeated acquire of what is granted waits for the standby, and so does a look', async () => {
  const [actor, other] = [await stage.actor('actor'), await stage.actor('other')]
  const [key, handed] = [stage.key(), stage.key()]
  const { request } = await actor.acquire(key)
  const { token } = await other.acquire(handed)
  const { request: inLine } = await actor.acquire(handed)
  await other.release(handed, token)
  await cutOff()
  const repeated = watched(actor.acquire(key, { request: request ?? '' }))
  await until(() => waiting(actor.pid))
  expect(repeated.state).toBe('open')
  await attach()
  expect(await repeated.promise).toMatchObject({ outcome: 'granted' })
  await cutOff()
  const looked = watched(actor.tick([handed], [inLine ?? '']))
  await until(() => waiting(actor.pid))
  expect(looked.state).toBe('open')
  await attach()
  expect(await looked.promise).toMatchObject([{ outcome: 'granted', request: inLine }])
})

test('a primary that is cut off renews nobody: trust runs out by itself', async () => {
  const fp = client('1.5s')
  const lock = await fp.acquire(stage.key())
  await cutOff()
  const degraded = watched(until(() => lock.state === 'degraded'))
  await until(() => lock.state === 'lost')
  expect(lock.lossReason).toBe('unreachable')
  expect(degraded.state).toBe('answered')
})

test('what may be asynchronous waits for no standby', async () => {
  const fp = client('20s')
  const key = stage.key()
  const lock = await fp.acquire(key)
  await cutOff()
  expect(await lock.release()).toBe('released')
  expect(await stage.lock(key)).toBeUndefined()
})
