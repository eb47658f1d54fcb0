import { afterEach, describe, expect, test } from 'vitest'
import { BadKeyError, BadOptionError, ClosedError, type Fencepost, type Lock } from '../../src/index.ts'
import { Stage } from '../session/stage.ts'
import { until } from '../support/until.ts'

const stage = new Stage()
const locks: Lock[] = []
afterEach(async () => {
  await Promise.all(locks.splice(0).map(lock => lock.release()))
})

async function take(client = stage.client(), key = 'k', options = {}): Promise<Lock> {
  const lock = await client.acquire(key, options)
  locks.push(lock)
  return lock
}

describe('query', () => {
  test('of nothing', async () => {
    expect(await stage.client().query()).toEqual({ held: [], pending: [] })
  })

  test('says who holds and who waits, since when, for what, and who blocks whom', async () => {
    const begin = Date.now()
    const metadata = { ticket: [1, 'zwei', null] }
    const lock = await take(stage.client({ owner: 'baker', ttl: '20s' }), 'oven', {
      label: 'bread',
      metadata,
    })
    const waiters = ['first', 'second'].map(owner => stage.client({ owner }))
    const waiting: Promise<Lock>[] = []
    for (const [index, client] of waiters.entries()) {
      waiting.push(client.acquire('oven', { label: `cake ${index + 1}` }))
      await until(async () => (await client.query({ key: 'oven' })).pending.length === index + 1)
    }
    const seen = stage.client()
    const { held, pending } = await seen.query()
    const here = { host: expect.any(String), pid: process.pid }
    expect(held).toEqual([
      {
        key: 'oven',
        mode: 'exclusive',
        permits: null,
        capacity: null,
        state: 'held',
        token: lock.token,
        owner: 'baker',
        application: process.env.PGAPPNAME ?? null,
        ...here,
        label: 'bread',
        metadata,
        since: expect.any(Date),
        ttlLeft: expect.any(Number),
        waiting: 2,
      },
    ])
    const [one] = held
    expect(Math.abs((one?.since.getTime() ?? 0) - begin)).toBeLessThan(60_000)
    expect(one?.ttlLeft).toBeGreaterThan(10_000)
    expect(one?.ttlLeft).toBeLessThanOrEqual(20_000)
    expect(
      pending.map(({ owner, place, label, blockedBy }) => ({ owner, place, label, blockedBy })),
    ).toMatchObject([
      {
        owner: 'first',
        place: 1,
        label: 'cake 1',
        blockedBy: [{ owner: 'baker', token: lock.token, permits: null, ...here }],
      },
      {
        owner: 'second',
        place: 2,
        label: 'cake 2',
        blockedBy: [{ owner: 'baker', token: lock.token, permits: null, ...here }],
      },
    ])
    for (const { waited, ttlLeft, since } of pending) {
      expect(waited).toBeGreaterThanOrEqual(0)
      expect(waited).toBeLessThan(60_000)
      expect(ttlLeft).toBeGreaterThan(0)
      expect(since).toBeInstanceOf(Date)
    }
    await lock.release()
    for (const each of waiting) await (await each).release()
    expect(await seen.query()).toEqual({ held: [], pending: [] })
  })

  test('who holds a key together, and who waits for all of them', async () => {
    const [one, two, three] = ['one', 'two', 'three'].map(owner => stage.client({ owner })) as [
      Fencepost,
      Fencepost,
      Fencepost,
    ]
    const readers = [await take(one, 'r', { mode: 'shared' }), await take(two, 'r', { mode: 'shared' })]
    const writing = three.acquire('r')
    const permits = await one.semaphore('s', { permits: 5 }).acquire({ permits: 3 })
    const others = await two.semaphore('s', { permits: 5 }).acquire()
    locks.push(permits, others)
    const heavy = three.semaphore('s', { permits: 5 }).acquire({ permits: 4 })
    await until(async () => (await one.query()).pending.length === 2)
    const { held, pending } = await three.query()
    const shared = { key: 'r', mode: 'shared', permits: null, capacity: null, state: 'held', waiting: 1 }
    const some = { key: 's', mode: 'permits', capacity: 5, state: 'held', waiting: 1 }
    expect(held).toMatchObject([
      { ...shared, owner: 'one', token: readers[0]?.token },
      { ...shared, owner: 'two', token: readers[1]?.token },
      { ...some, owner: 'one', permits: 3, token: permits.token },
      { ...some, owner: 'two', permits: 1, token: others.token },
    ])
    expect(pending).toMatchObject([
      {
        key: 'r',
        mode: 'exclusive',
        permits: null,
        place: 1,
        blockedBy: [{ owner: 'one' }, { owner: 'two' }],
      },
      {
        ...{ key: 's', mode: 'permits', permits: 4, capacity: 5, place: 1 },
        blockedBy: [
          { owner: 'one', permits: 3, token: permits.token },
          { owner: 'two', permits: 1, token: others.token },
        ],
      },
    ])
    for (const lock of locks.splice(0)) await lock.release()
    await (await writing).release()
    await (await heavy).release()
    // A semaphore remembers how many permits it has; nobody holds any.
    expect(await three.query()).toEqual({ held: [], pending: [] })
  })

  test('several keys: a place in the line of each that is kept free, and of each that is not', async () => {
    const holder = stage.client()
    const lock = await take(holder, 'b')
    const waiting = stage.client().acquire(['a', 'b'])
    await until(async () => (await holder.query()).pending.length === 2)
    expect(await holder.query()).toMatchObject({
      held: [{ key: 'b' }],
      pending: [
        { key: 'a', place: 1, blockedBy: [] },
        { key: 'b', place: 1, blockedBy: [{ token: lock.token }] },
      ],
    })
    await locks.pop()?.release()
    await (await waiting).release()
  })

  test('of one key, under the client’s namespace; of all keys, whatever their namespace', async () => {
    await take(stage.client(), 'k')
    await take(stage.client({ namespace: 'billing' }), 'k')
    const names = ({ held }: { held: readonly { key: string }[] }) => held.map(({ key }) => key)
    expect(names(await stage.client().query({ key: 'k' }))).toEqual(['k'])
    expect(names(await stage.client({ namespace: 'billing' }).query({ key: 'k' }))).toEqual(['billing:k'])
    expect(names(await stage.client({ namespace: 'other' }).query({ key: 'k' }))).toEqual([])
    expect(names(await stage.client({ namespace: 'other' }).query())).toEqual(['billing:k', 'k'])
    await expect(stage.client().query({ key: '' })).rejects.toBeInstanceOf(BadKeyError)
  })

  test('says the application’s name, with which its pool connects', async () => {
    const url = new URL(stage.db.url)
    url.searchParams.set('application_name', 'the "shop" & more')
    await take(stage.client({ pool: url.href }))
    expect((await stage.client().query()).held).toMatchObject([{ application: 'the "shop" & more' }])
    await locks.pop()?.release()
    await take(stage.client({ pool: stage.db.pool({ application_name: 'shop' }) }))
    expect((await stage.client().query()).held).toMatchObject([{ application: 'shop' }])
  })

  test('is data: it holds nothing by which anything could be released, or a grant be proved', async () => {
    await take()
    const [session] = await stage.sql<{ id: string; request: string }>(
      "select session as id, request from $schema.locks where key = 'k'",
    )
    const { held, pending } = await stage.client().query()
    const seen = JSON.stringify([held, pending], (_, value) =>
      typeof value === 'bigint' ? String(value) : value,
    )
    expect(seen).toContain('"k"')
    expect(seen).not.toContain(session?.id)
    expect(seen).not.toContain(session?.request)
    for (const entry of held) {
      expect(Object.getPrototypeOf(entry)).toBe(Object.prototype)
      expect(Object.values(entry).filter(value => typeof value === 'function')).toEqual([])
    }
  })

  test.each(['k', null, 7])(
    '%j is no options: refused, not taken for a question about all keys',
    async options => {
      const asked = (async () => await stage.client().query(options as never))()
      await expect(asked).rejects.toBeInstanceOf(BadOptionError)
    },
  )

  test('after close is refused', async () => {
    const client = stage.client()
    await client.close()
    await expect(client.query()).rejects.toBeInstanceOf(ClosedError)
  })
})

describe('forceRelease', () => {
  test('of a key that several hold: all of them, or the one whose token is named', async () => {
    const reader = () => take(stage.client({ ttl: '2s' }), 'r', { mode: 'shared' })
    const [first, second, third] = [await reader(), await reader(), await reader()]
    const operator = stage.client()
    const tokens = async () => (await operator.query()).held.map(({ token }) => token)
    expect(await operator.forceRelease('r', { reason: 'one', token: second.token, now: true })).toEqual({
      outcome: 'released',
      token: second.token,
      movesWithin: null,
    })
    expect(await tokens()).toEqual([first.token, third.token])
    expect(await operator.forceRelease('r', { reason: 'all' })).toMatchObject({ outcome: 'forced' })
    await until(async () => (await tokens()).length === 0)
    await until(() => [first, second, third].every(lock => lock.lossReason === 'forced'))
  })

  test.each(['yes', 1, null])('now: %j is refused, and nothing is taken', async now => {
    const lock = await take()
    const forced = stage.client().forceRelease('k', { reason: 'stuck', now: now as never })
    await expect(forced).rejects.toBeInstanceOf(BadOptionError)
    expect((await stage.client().query()).held).toMatchObject([
      { key: 'k', state: 'held', token: lock.token },
    ])
  })
})
