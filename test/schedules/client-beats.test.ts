// Heartbeats that do not come through: the holder knows before anybody else can hold the key, and not a moment sooner
// than it must.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Fencepost, type Lock, LostError } from '../../src/index.ts'
import type { PostgresProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'
import { Clients } from './support/clients.ts'
import { hook, shutGate, stopAtGate } from './support/hook.ts'
import { Stage } from './support/stage.ts'
import { type Watched, watched } from './support/watched.ts'

const ttl = 1_500
let stage: Stage
let clients: Clients
let key: string

beforeAll(async () => {
  stage = await Stage.create()
  clients = new Clients(stage)
})
beforeEach(() => {
  key = stage.key()
})
afterEach(() => clients.end())
afterAll(() => stage.drop())

/** A holder behind a proxy, and one of another client in line behind it. */
async function cast(): Promise<{ proxy: PostgresProxy; lock: Lock; next: Watched<Lock>; other: Fencepost }> {
  const { fp, proxy } = await clients.proxied({ ttl })
  await clients.ready(fp)
  const other = clients.direct()
  const lock = await fp.acquire(key)
  const next = watched(other.acquire(key))
  await until(async () => (await stage.line(key)).length === 1)
  await renewal(lock)
  return { proxy, lock, next, other }
}

/** Waits for the next renewal that is answered. */
async function renewal(lock: Lock): Promise<void> {
  let before = Number.POSITIVE_INFINITY
  await until(() => {
    const rose = lock.remaining > before
    before = lock.remaining
    return rose
  })
}

/** Milliseconds until the holder's session expires by the row. */
async function left(): Promise<number> {
  const [row] = await stage.sql(
    `select (extract(epoch from s.expires_at - clock_timestamp()) * 1000)::float8 as left
       from $schema.sessions s join $schema.locks l on l.session = s.id where l.key = $1`,
    [key],
  )
  return row?.left
}

describe.each(['both directions', 'toServer', 'toClient'] as const)('a cable pulled out, %s', direction => {
  test.each([0, 150])(
    'the holder is told before the next one holds (replies had come %s ms late)',
    async delay => {
      const { proxy, lock, next } = await cast()
      const aborted = new Promise<unknown>(resolve => {
        lock.signal.addEventListener('abort', () => resolve(lock.signal.reason))
      })
      const both: string[] = []
      next.promise.then(
        other => both.push(lock.state, other.state),
        () => {},
      )
      if (delay > 0) {
        // Trust counts from when a renewal was sent, the row from when it came.
        proxy.delay(delay, 'toClient')
        await renewal(lock)
      }
      proxy.blackHole(direction === 'both directions' ? undefined : direction)
      await until(() => lock.state === 'degraded')
      expect(next.state).toBe('open')
      const second = await next.promise
      expect(both).toEqual(['lost', 'held'])
      expect(await aborted).toBeInstanceOf(LostError)
      expect(await aborted).toMatchObject({ code: 'lost', reason: 'unreachable', key })
      expect(await lock.release()).toBe('unreachable')
      expect(await stage.lock(key)).toMatchObject({ token: second.token })
      await second.release()
    },
  )
})

test('the abort comes by itself, with nobody reading a gate', async () => {
  const { proxy, lock, next } = await cast()
  const { signal } = lock
  proxy.blackHole()
  await until(() => signal.aborted, { every: 1 })
  // The row has more than half of the margin to go.
  expect(await left()).toBeGreaterThan(100)
  expect(next.state).toBe('open')
  await (await next.promise).release()
})

test('one failed heartbeat is no loss: degraded, tried again, held again, and renewed from then on', async () => {
  const { proxy, lock, next } = await cast()
  await proxy.accept(false)
  proxy.cut()
  await until(() => lock.state === 'degraded')
  expect(() => lock.assertHeld()).not.toThrow()
  expect(lock.remaining).toBeGreaterThan(0)
  await proxy.accept(true)
  await until(() => lock.state === 'held', { within: ttl })
  // For two times to live more.
  const start = performance.now()
  await until(() => performance.now() - start > 2 * ttl || lock.state !== 'held')
  expect(lock.state).toBe('held')
  expect(lock.signal.aborted).toBe(false)
  expect(next.state).toBe('open')
  await lock.release()
  await (await next.promise).release()
})

test('after a long wait a lock has what its session has left: two thirds of the ttl, less a heartbeat’s way', async () => {
  const holder = await stage.actor('holder')
  const { token } = await holder.acquire(key)
  const fp = clients.direct({ ttl })
  const waiting = watched(fp.acquire(key))
  await until(async () => (await stage.line(key)).length === 1)
  const began = performance.now()
  await until(() => performance.now() - began > 2 * ttl)
  await holder.release(key, token)
  const lock = await waiting.promise
  expect(lock.remaining).toBeGreaterThan((2 / 3) * ttl - 200 - 250)
  expect(lock.remaining).toBeLessThanOrEqual(ttl - 200)
})

test('after a loss the same client takes and keeps locks', async () => {
  const { fp, proxy } = await clients.proxied({ ttl })
  const lost = await fp.acquire(key)
  proxy.blackHole()
  await until(() => lost.state === 'lost')
  proxy.release()
  const again = await fp.acquire(key, { timeout: '10s' })
  expect(lost.state).toBe('lost')
  const start = performance.now()
  await until(() => performance.now() - start > 2 * ttl || again.state === 'lost')
  expect(again.state).toBe('held')
  expect(await again.release()).toBe('released')
})

test('what waits is told when its session is gone, and who asks anew is served', async () => {
  const holder = await stage.actor('holder')
  const { token } = await holder.acquire(key)
  const { fp, proxy } = await clients.proxied({ ttl })
  await clients.ready(fp)
  const waiting = watched(fp.acquire(key))
  await until(async () => (await stage.line(key)).length === 1)
  proxy.blackHole()
  await until(() => waiting.state === 'failed')
  expect(waiting.error).toMatchObject({ code: 'lost', reason: 'unreachable' })
  proxy.release()
  await until(async () => (await stage.line(key)).length === 0)
  await holder.release(key, token)
  await (await fp.acquire(key)).release()
})

test('the beat connection alone is cut off, for good: heartbeats go by another', async () => {
  const { fp, proxy } = await clients.beatProxied({ ttl: 3_000 })
  const lock = await fp.acquire(key)
  await renewal(lock)
  proxy.blackHole()
  const start = performance.now()
  await until(() => performance.now() - start > 6_000 || lock.state === 'lost', { within: 10_000 })
  expect(lock.state).not.toBe('lost')
  expect(await left()).toBeGreaterThan(0)
})

test('the beat connection never comes up: heartbeats go by another from the first', async () => {
  const { fp, proxy } = await clients.beatProxied({ ttl: 3_000 })
  proxy.blackHole()
  const lock = await fp.acquire(key)
  const start = performance.now()
  await until(() => performance.now() - start > 6_000 || lock.state === 'lost', { within: 10_000 })
  expect(lock.state).not.toBe('lost')
  expect(await left()).toBeGreaterThan(0)
})

describe('the tick is a call of its own', () => {
  test('one that fails keeps nobody from renewing', async () => {
    const takeAway = await hook(stage, 'tick', {
      before: `raise exception 'not now' using errcode = 'XX000';`,
    })
    await expectHeldFor(clients.direct({ ttl: 1_000 }), 3_000)
    await takeAway()
  })

  test('one that hangs keeps nobody from renewing', async () => {
    const takeAway = await hook(stage, 'tick', { before: stopAtGate })
    const open = await shutGate(stage)
    await expectHeldFor(clients.direct({ ttl: 1_000 }), 3_000)
    await open()
    await takeAway()
  })

  async function expectHeldFor(fp: Fencepost, ms: number): Promise<void> {
    const lock = await fp.acquire(key)
    const { token } = lock
    const start = performance.now()
    await until(() => performance.now() - start > ms || lock.state === 'lost')
    expect(lock.state).not.toBe('lost')
    expect(await left()).toBeGreaterThan(0)
    expect(await stage.lock(key)).toMatchObject({ token })
  }
})

test('one session’s failing renewal is not another’s', async () => {
  const fp = clients.direct()
  const [short, long] = [await fp.acquire(key, { ttl: '1s' }), await fp.acquire(stage.key(), { ttl: '2s' })]
  const takeAway = await hook(stage, 'heartbeat', {
    before: `if exists (select from $schema.sessions s where s.id = heartbeat.session and s.ttl = '1s') then
      raise exception 'not this one' using errcode = 'XX000'; end if;`,
  })
  await until(() => short.state === 'lost')
  expect(short.lossReason).toBe('unreachable')
  await renewal(long)
  expect(long.state).not.toBe('lost')
  await takeAway()
})
