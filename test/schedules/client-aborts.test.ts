// Giving up while the answer is on its way, or never comes: one outcome, and nothing left.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Fencepost } from '../../src/index.ts'
import type { PostgresProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'
import { Clients } from './support/clients.ts'
import { atGate, hook, shutGate, stopAtGate } from './support/hook.ts'
import { Stage } from './support/stage.ts'
import { type Watched, watched } from './support/watched.ts'

let stage: Stage
let clients: Clients
let fp: Fencepost
let proxy: PostgresProxy
let key: string

beforeAll(async () => {
  stage = await Stage.create()
  clients = new Clients(stage)
})
beforeEach(async () => {
  key = stage.key()
  ;({ fp, proxy } = await clients.proxied())
  await clients.ready(fp)
})
afterEach(() => clients.end())
afterAll(() => stage.drop())

const nothingLeft = async () => {
  const [row] = await stage.sql(
    `select (select count(*) from $schema.locks)::int as grants, (select count(*) from $schema.waiters)::int as tickets`,
  )
  return row?.grants === 0 && row.tickets === 0
}

async function expectAborted(asked: Watched<unknown>, reason: unknown): Promise<void> {
  await until(() => asked.state !== 'open', { within: 3_000 })
  expect(asked.error).toMatchObject({ code: 'aborted', cause: reason })
}

test('abort while the reply to a grant is held: told at once, and the grant goes back when it comes', async () => {
  const giveUp = new AbortController()
  proxy.hold('toClient')
  const asked = watched(fp.acquire(key, { signal: giveUp.signal }))
  await until(() => stage.lock(key))
  giveUp.abort('enough')
  await expectAborted(asked, 'enough')
  expect(await stage.lock(key)).toBeDefined()
  proxy.release()
  await until(nothingLeft)
})

test('timeout while the reply to a grant is held: the same', async () => {
  proxy.hold('toClient')
  const asked = watched(fp.acquire(key, { timeout: 300 }))
  await until(() => stage.lock(key))
  await until(() => asked.state === 'failed', { within: 3_000 })
  expect(asked.error).toMatchObject({ code: 'timed_out', timeout: 300 })
  proxy.release()
  await until(nothingLeft)
})

test('abort while the reply that says "in line" is held: the place is given up', async () => {
  const holder = await stage.actor('holder')
  const { token } = await holder.acquire(key)
  const giveUp = new AbortController()
  proxy.hold('toClient')
  const asked = watched(fp.acquire(key, { signal: giveUp.signal }))
  await until(async () => (await stage.line(key)).length === 1)
  giveUp.abort('enough')
  await expectAborted(asked, 'enough')
  proxy.release()
  await until(async () => (await stage.line(key)).length === 0)
  await holder.release(key, token)
  await until(nothingLeft)
})

test('abort, and the reply to the grant is lost: the grant goes back', async () => {
  const giveUp = new AbortController()
  proxy.hold('toClient')
  const asked = watched(fp.acquire(key, { signal: giveUp.signal }))
  await until(() => stage.lock(key))
  giveUp.abort('enough')
  proxy.cut()
  proxy.release()
  await expectAborted(asked, 'enough')
  await until(nothingLeft)
})

test('abort in line while a hand-over to it is in flight: one outcome, and the key goes on', async () => {
  const [holder, next] = [await stage.actor('holder'), await stage.actor('next')]
  const { token } = await holder.acquire(key)
  const giveUp = new AbortController()
  const asked = watched(fp.acquire(key, { signal: giveUp.signal }))
  await until(async () => (await stage.line(key)).length === 1)
  await next.acquire(key)
  await holder.begin()
  await holder.release(key, token)
  giveUp.abort('enough')
  await until(async () => {
    const rows = await stage.sql(
      `select from pg_stat_activity where $1 = any (pg_blocking_pids(pid)) and application_name like 'fencepost %'`,
      [holder.pid],
    )
    return rows.length === 1
  })
  await holder.commit()
  await expectAborted(asked, 'enough')
  await until(async () => (await stage.lock(key))?.session === next.session)
  expect(await stage.line(key)).toEqual([])
})

/** The acquire of the first generation stands at the gate, and its connection is lost. */
async function lateAcquire(signal?: AbortSignal) {
  const takeAway = await hook(stage, 'acquire', {
    before: `if acquire.generation = 1 then ${stopAtGate} end if;`,
  })
  const open = await shutGate(stage)
  const asked = watched(fp.acquire(key, signal ? { signal } : {}))
  await until(async () => (await atGate(stage)) === 1)
  const [late] = await stage.sql(
    `select pid from pg_locks where locktype = 'advisory' and objid = 7007 and not granted`,
  )
  proxy.cut()
  const runOut = async () => {
    await open()
    await until(
      async () => (await stage.sql('select from pg_stat_activity where pid = $1', [late?.pid])).length === 0,
    )
    await takeAway()
  }
  return { asked, runOut }
}

test('an acquire that runs after its client has given it up takes nothing', async () => {
  const giveUp = new AbortController()
  const { asked, runOut } = await lateAcquire(giveUp.signal)
  giveUp.abort('enough')
  await expectAborted(asked, 'enough')
  expect(await nothingLeft()).toBe(true)
  await runOut()
  expect(await nothingLeft()).toBe(true)
})

test('an acquire that runs after it was repeated, granted and released takes nothing', async () => {
  const { asked, runOut } = await lateAcquire()
  const lock = await asked.promise
  expect(await stage.lock(key)).toMatchObject({ token: lock.token })
  expect(await lock.release()).toBe('released')
  await runOut()
  expect(await nothingLeft()).toBe(true)
})

test('an acquire that still runs when its connection is lost is waited for, and is the one grant', async () => {
  await hook(stage, 'acquire', { after: `if acquire.generation = 1 then ${stopAtGate} end if;` })
  const open = await shutGate(stage)
  const asked = watched(fp.acquire(key))
  await until(async () => (await atGate(stage)) === 1)
  proxy.cut()
  // What raises the generation waits for who stands at the gate with the session's row.
  await until(async () => {
    const rows = await stage.sql(
      `select from pg_stat_activity, pg_locks
        where locktype = 'advisory' and objid = 7007 and not granted
          and pg_locks.pid = any (pg_blocking_pids(pg_stat_activity.pid)) and application_name like 'fencepost %'`,
    )
    return rows.length === 1
  })
  expect(asked.state).toBe('open')
  await open()
  const lock = await asked.promise
  expect(await stage.sql('select key, token from $schema.locks')).toEqual([
    { key, token: String(lock.token) },
  ])
  expect(await lock.release()).toBe('released')
  expect(await nothingLeft()).toBe(true)
})

test('close while the reply to a grant is held: nothing is left', async () => {
  proxy.hold('toClient')
  const asked = watched(fp.acquire(key))
  await until(() => stage.lock(key))
  const closed = fp.close()
  await until(() => asked.state === 'failed', { within: 3_000 })
  expect(asked.error).toMatchObject({ code: 'closed' })
  proxy.release()
  await closed
  await until(nothingLeft)
})
