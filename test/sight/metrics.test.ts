import { escapeIdentifier } from 'pg'
import { describe, expect, test } from 'vitest'
import type { Lock } from '../../src/index.ts'
import { Histogram, ticksOf } from '../../src/metrics.ts'
import { Stage } from '../session/stage.ts'
import { twist } from '../support/twist.ts'
import { until } from '../support/until.ts'

const stage = new Stage()

describe('a histogram', () => {
  test('counts by powers of two, and adds up', () => {
    const histogram = new Histogram(8)
    expect(histogram.snapshot()).toEqual({ count: 0, sum: 0, buckets: [] })
    for (const value of [0, 1, 7, 8, 9, 15, 16]) histogram.record(value)
    expect(histogram.snapshot()).toEqual({
      count: 7,
      sum: 7,
      buckets: [
        { below: 1 / 8, count: 1 },
        { below: 1 / 4, count: 1 },
        { below: 1 / 2, count: 0 },
        { below: 1, count: 1 },
        { below: 2, count: 3 },
        { below: 4, count: 1 },
      ],
    })
  })

  test('takes the longest span that two ticks can tell, over their turn', () => {
    const turn = 2 ** 32 / 8
    const [before, after] = [ticksOf(turn - 1), ticksOf(turn + 1)]
    expect((after - before) >>> 0).toBe(16)
    const histogram = new Histogram(8)
    histogram.record(2 ** 32 - 1)
    expect(histogram.snapshot().buckets.at(-1)).toEqual({ below: turn, count: 1 })
  })
})

describe('metrics', () => {
  test('of a client that has done nothing', () => {
    const empty = { count: 0, sum: 0, buckets: [] }
    expect(stage.client().metrics()).toEqual({
      namespace: null,
      acquires: { granted: 0 },
      waits: empty,
      holds: empty,
      losses: { expired: 0, unreachable: 0, forced: 0, shutdown: 0 },
      batches: { acquire: empty, tick: empty, release: empty, cancel: empty },
      notifications: { sent: 0, received: 0 },
      passed: 0,
      polls: 0,
      held: 0,
      pending: 0,
    })
  })

  test('count each acquire once, by how it ended', async () => {
    const [client, other] = [stage.client({ namespace: 'shop', maxPending: 3 }), stage.client()]
    const lock = await client.acquire('k')
    expect(client.metrics()).toMatchObject({
      namespace: 'shop',
      held: 1,
      pending: 0,
      acquires: { granted: 1 },
    })
    expect(await client.tryAcquire('k')).toBeNull()
    await expect(client.acquire('k', { timeout: 0 })).rejects.toMatchObject({ code: 'timed_out' })
    await expect(client.acquire('k', { timeout: 30 })).rejects.toMatchObject({ code: 'timed_out' })
    await expect(client.acquire('')).rejects.toMatchObject({ code: 'bad_key' })
    const controller = new AbortController()
    const waiting = [1, 2, 3].map(() => client.acquire('k', { signal: controller.signal }))
    await expect(client.acquire('k')).rejects.toMatchObject({ code: 'queue_full' })
    expect(client.metrics()).toMatchObject({ held: 1, pending: 3 })
    controller.abort()
    for (const each of waiting) await expect(each).rejects.toMatchObject({ code: 'aborted' })
    expect(client.metrics().acquires).toEqual({
      granted: 1,
      busy: 2,
      timed_out: 1,
      bad_key: 1,
      queue_full: 1,
      aborted: 3,
    })
    expect(client.metrics()).toMatchObject({ held: 1, pending: 0, waits: { count: 1 }, holds: { count: 0 } })
    await lock.release()
    await lock.release()
    expect(client.metrics()).toMatchObject({ held: 0, holds: { count: 1 } })
    expect(other.metrics().acquires).toEqual({ granted: 0 })
  })

  test('say how long was waited and held', async () => {
    const [client, other] = [stage.client(), stage.client()]
    const lock = await other.acquire('k')
    const begin = performance.now()
    const waiting = client.acquire('k')
    await until(async () => (await client.query({ key: 'k' })).pending.some(({ waited }) => waited > 60))
    await lock.release()
    const next = await waiting
    const waited = performance.now() - begin
    const { waits } = client.metrics()
    expect(waits.count).toBe(1)
    expect(waits.sum).toBeGreaterThan(60)
    expect(waits.sum).toBeLessThanOrEqual(waited)
    const { holds } = other.metrics()
    expect(holds.count).toBe(1)
    expect(holds.sum).toBeGreaterThan(60)
    await next.release()
  })

  test('count batches with what they carry', async () => {
    const client = stage.client()
    await (await client.acquire('warm')).release()
    const before = client.metrics().batches
    const keys = Array.from({ length: 20 }, (_, i) => `k${i}`)
    const locks = await Promise.all(keys.map(key => client.acquire(key)))
    await Promise.all(locks.map(lock => lock.release()))
    const { acquire, release } = client.metrics().batches
    expect(acquire.sum - before.acquire.sum).toBe(20)
    expect(release.sum - before.release.sum).toBe(20)
    expect(acquire.count - before.acquire.count).toBe(1)
    expect(acquire.buckets.at(-1)).toEqual({ below: 32, count: 1 })
  })

  test('count losses by reason', async () => {
    const [client, operator] = [stage.client({ ttl: '9s' }), stage.client()]
    const lock = await client.acquire('k')
    await operator.forceRelease('k', { reason: 'a test' })
    await expect(lock.renew()).rejects.toMatchObject({ reason: 'forced' })
    await client.acquire('other')
    expect(client.metrics()).toMatchObject({
      losses: { forced: 1, shutdown: 0 },
      holds: { count: 1 },
      held: 1,
    })
    await client.close()
    expect(client.metrics()).toMatchObject({
      losses: { forced: 1, shutdown: 1 },
      holds: { count: 2 },
      held: 0,
    })
  })

  test('count losses that nobody meant', async () => {
    const [expiring, cutOff] = [stage.client({ ttl: '9s' }), stage.client({ ttl: '1s' })]
    const lock = await expiring.acquire('k')
    await stage.sql("update $schema.sessions set expires_at = '-infinity'")
    await expect(lock.renew()).rejects.toMatchObject({ reason: 'expired' })
    expect(expiring.metrics()).toMatchObject({
      losses: { expired: 1, unreachable: 0, forced: 0, shutdown: 0 },
      holds: { count: 1 },
      held: 0,
    })

    const { signal } = await cutOff.acquire('k')
    // Its row is locked: no renewal is answered.
    const blocker = await stage.db.pool({ max: 1 }).connect()
    const mine = "select from $schema.sessions where ttl = '1s' for update"
    try {
      await blocker.query('begin')
      await blocker.query(mine.replace('$schema', () => escapeIdentifier(stage.db.schema)))
      await until(() => signal.aborted)
    } finally {
      await blocker.query('rollback')
      blocker.release()
    }
    expect(cutOff.metrics()).toMatchObject({
      losses: { expired: 0, unreachable: 1, forced: 0, shutdown: 0 },
      holds: { count: 1 },
      held: 0,
    })
  })

  test('count notifications at both ends, and the looks of a timer', async () => {
    const [client, other] = [stage.client({ poll: 50 }), stage.client()]
    await (await client.acquire('warm')).release()
    if (twist.notified) await until(async () => (await client.health()).waking === 'listening')
    const lock = await other.acquire('k')
    const waiting = client.acquire('k')
    await until(() => client.metrics().polls > 1)
    await lock.release()
    await (await waiting).release()
    if (!twist.notified) return
    await until(() => client.metrics().notifications.received > 0)
    expect(other.metrics().notifications.sent).toBe(1)
    expect(client.metrics().batches.tick.count).toBeGreaterThan(1)
  })

  test.runIf(twist.notified)('count a notification once that the client sends by itself', async () => {
    const pool = stage.db.pool()
    const query = (text: string, values?: unknown[]) => pool.query(text, values)
    const [client, other] = [stage.client({ poll: '60s' }), stage.client({ pool: { query } })]
    const queued = async (asked: Promise<Lock>) => {
      await until(async () => (await stage.sql('select from $schema.waiters')).length === 1)
      return { asked }
    }
    await (await client.acquire('warm')).release()
    await until(async () => (await client.health()).waking === 'listening')
    const first = await client.acquire('k')
    const theirs = await queued(other.acquire('k'))
    await first.release()
    const held = await theirs.asked
    const again = await queued(client.acquire('k'))
    await held.release()
    await (await again.asked).release()
    expect(other.metrics().notifications.sent).toBe(1)
  })
})
