// A notification is a hint: with every one of them lost, and with an ear that has gone deaf unnoticed, who is next in
// line is served all the same.
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { GreetedByAnother } from '../support/greeted.ts'
import { until } from '../support/until.ts'
import { Clients } from './support/clients.ts'
import { Stage } from './support/stage.ts'
import { watched } from './support/watched.ts'

let stage: Stage
let clients: Clients
let key: string
let warnings: string[] = []
const note = (warning: Error & { code?: string }) => {
  if (warning.code) warnings.push(warning.code)
}

beforeAll(async () => {
  stage = await Stage.create()
  clients = new Clients(stage)
})
beforeEach(() => {
  key = stage.key()
  warnings = []
  process.on('warning', note)
})
afterEach(async () => {
  process.off('warning', note)
  await clients.end()
})
afterAll(() => stage.drop())

/** Every client that a pool with this class opens, ours among them. */
const opened: pg.Client[] = []
class Noted extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config)
    opened.push(this)
  }
}

/** The connection of a client that hears: something is done to it behind the client's back. */
async function beatConnection(): Promise<pg.Client> {
  const [row] = await stage.sql(
    `select pid from pg_stat_activity where datname = current_database() and application_name = 'fencepost beat'`,
  )
  const found = opened.find(client => (client as unknown as { processID: number }).processID === row?.pid)
  if (!found) throw new Error('no such connection')
  return found
}

test('the releaser dies between its commit and its notification: served by the poll', async () => {
  const fp = clients.direct({ poll: '500ms' })
  await clients.ready(fp)
  // It commits a hand-over, and says nothing to anybody.
  const releaser = await stage.actor('releaser')
  const { token } = await releaser.acquire(key)
  const next = watched(fp.acquire(key))
  await until(async () => (await stage.line(key)).length === 1)
  await releaser.release(key, token)
  const released = performance.now()
  await next.promise
  expect(next.at - released).toBeLessThan(500 + 1_000)
})

test.each(['hold', 'blackHole'] as const)(
  'no notification comes through (%s): served by the poll',
  async weather => {
    const { fp, proxy } = await clients.beatProxied({ poll: '500ms' })
    const other = clients.direct()
    const lock = await other.acquire(key)
    const next = watched(fp.acquire(key))
    await until(async () => (await stage.line(key)).length === 1)
    proxy[weather]('toClient')
    await lock.release()
    const released = performance.now()
    await next.promise
    expect(next.at - released).toBeLessThan(500 + 1_000)
  },
)

test('listening, it does not wait for the poll', async () => {
  const fp = clients.direct({ poll: '60s' })
  await clients.ready(fp)
  const lock = await clients.direct().acquire(key)
  const next = watched(fp.acquire(key))
  await until(async () => (await stage.line(key)).length === 1)
  await lock.release()
  await until(() => next.state === 'answered', { within: 2_000 })
})

test.each(['unlisten *', 'discard all'])(
  '%s behind its back: found within the ping, and caught up',
  async statement => {
    const pool = stage.db.pool({ Client: Noted } as unknown as pg.PoolConfig)
    const fp = clients.direct({ pool, poll: '60s' })
    await clients.ready(fp)
    const beat = await beatConnection()
    const lock = await clients.direct().acquire(key)
    const next = watched(fp.acquire(key))
    await until(async () => (await stage.line(key)).length === 1)
    await beat.query(statement)
    await lock.release()
    await until(() => next.state === 'answered', { within: 5_000 + 3_000 })
    // And it hears again: the next one is served at once.
    const again = watched(fp.acquire(key))
    await (await next.promise).release()
    const held = await again.promise
    const third = watched(fp.acquire(key))
    await until(async () => (await stage.line(key)).length === 1)
    await held.release()
    await (await third.promise).release()
    expect(warnings).toEqual([])
  },
)

test('what was said while the ear was away is read when it is back', async () => {
  const { fp, proxy } = await clients.beatProxied({ poll: '60s' })
  const other = clients.direct()
  const lock = await other.acquire(key)
  const { token } = lock
  const next = watched(fp.acquire(key))
  await until(async () => (await stage.line(key)).length === 1)
  await proxy.accept(false)
  proxy.cut()
  await lock.release()
  await until(async () => (await stage.lock(key))?.token !== token)
  await proxy.accept(true)
  await until(() => next.state === 'answered', { within: 5_000 })
})

test('a notification that arrives behind a pooler, by chance, does not make the connection ours', async () => {
  const pool = stage.db.pool({ Client: GreetedByAnother } as unknown as pg.PoolConfig)
  const fp = clients.direct({ pool })
  const lock = await fp.acquire(key)
  await until(() => warnings.length > 0)
  expect(warnings).toEqual(['FENCEPOST_POLLING'])
  expect((await fp.health()).waking).toBe('polling')
  await lock.release()
  expect(await stage.lock(key)).toBeUndefined()
})

test('a probe whose sending failed proves nothing: tried again, and no word of polling', async () => {
  const { fp, proxy } = await clients.proxied()
  const dropped = proxy.dropReplyAfter(request => request.includes('pg_notify'))
  const warm = fp.acquire(key)
  await dropped
  await (await warm).release()
  await clients.ready(fp)
  expect(warnings).toEqual([])
})

test.each([1, 2, 3])(
  'the reply to the settings of connection %i is lost: all of them have theirs in the end',
  async nth => {
    const { fp, proxy } = await clients.proxied()
    let seen = 0
    const dropped = proxy.dropReplyAfter(request => request.includes('set_config(s.name') && ++seen === nth)
    const warm = fp.acquire(key)
    await dropped
    await (await warm).release()
    await clients.ready(fp)
    expect(warnings).toEqual([])
  },
)

test('a stall while the probe is under way proves nothing', async () => {
  const fp = clients.direct()
  await (await fp.acquire(key)).release()
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500)
  await clients.ready(fp)
  expect(warnings).toEqual([])
})

test('a notification that cannot be sent keeps nobody from being served, and the releaser from nothing', async () => {
  const { fp, proxy } = await clients.proxied({ poll: '500ms' })
  await clients.ready(fp)
  const other = clients.direct({ poll: '500ms' })
  const lock = await fp.acquire(key)
  const next = watched(other.acquire(key))
  await until(async () => (await stage.line(key)).length === 1)
  const dropped = proxy.dropReplyAfter(request => request.includes('notify'))
  expect(await lock.release()).toBe('released')
  await (await next.promise).release()
  await dropped
  expect(await (await fp.acquire(key)).release()).toBe('released')
})
