import { describe, expect, test } from 'vitest'
import { type Fencepost, LimitMismatchError, type Lock } from '../../src/index.ts'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'

describe('a semaphore', () => {
  const stage = new Stage(ways['a pool'])

  /** How many permits are out, by the database. */
  async function out(): Promise<number> {
    const [row] = await stage.db.query<{ out: number }>(
      `select coalesce(sum(permits), 0)::int as out from ${stage.sql('held')} where key = 's' and not released`,
    )
    return row?.out ?? -1
  }

  /** Asks for n permits, and settles when the place in line is taken. */
  async function join(
    client: Fencepost,
    of: number,
    n: number,
    place: number,
    options = {},
  ): Promise<{ granted: Promise<Lock>; isGranted: () => boolean }> {
    let isGranted = false
    const granted = client.semaphore('s', { permits: of }).acquire({ permits: n, ...options })
    granted.then(
      () => {
        isGranted = true
      },
      () => {},
    )
    await stage.queued('s', place)
    return { granted, isGranted: () => isGranted }
  }

  test('as many as there are, in any parts, and no more', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const [mine, theirs] = [one.semaphore('s', { permits: 5 }), other.semaphore('s', { permits: 5 })]
    const three = await mine.acquire({ permits: 3 })
    const two = await theirs.acquire({ permits: 2 })
    const tokens = new Set([three.token, two.token])
    expect([three.mode, three.permits, two.permits, await out()]).toEqual(['permits', 3, 2, 5])
    expect(await theirs.tryAcquire()).toBeNull()
    await two.release()
    const singles = [await mine.tryAcquire(), await theirs.tryAcquire()]
    expect(singles.map(lock => lock?.permits)).toEqual([1, 1])
    expect(await mine.tryAcquire()).toBeNull()
    for (const lock of singles) tokens.add((lock as Lock).token)
    expect(tokens.size).toBe(4)
  })

  test('in line also for many at once: who wants all is not passed by who wants one', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const held = [
      await one.semaphore('s', { permits: 3 }).acquire(),
      await one.semaphore('s', { permits: 3 }).acquire(),
    ]
    const heavy = await join(other, 3, 3, 1)
    const light = [await join(one, 3, 1, 2), await join(other, 3, 1, 3)]
    expect(await one.semaphore('s', { permits: 3 }).tryAcquire()).toBeNull()
    await held[0]?.release()
    expect(await stage.waiting('s')).toBe(3)
    await held[1]?.release()
    const all = await heavy.granted
    expect([await out(), ...light.map(each => each.isGranted())]).toEqual([3, false, false])
    await all.release()
    expect((await Promise.all(light.map(({ granted }) => granted))).map(({ state }) => state)).toEqual([
      'held',
      'held',
    ])
  })

  test('who wanted more than is free, and gives up, lets in whom it kept waiting', async () => {
    const [one, other] = [stage.client(), stage.client()]
    await one.semaphore('s', { permits: 3 }).acquire({ permits: 2 })
    const controller = new AbortController()
    const heavy = await join(other, 3, 2, 1, { signal: controller.signal })
    const light = await join(other, 3, 1, 2)
    controller.abort()
    await expect(heavy.granted).rejects.toMatchObject({ code: 'aborted' })
    expect((await light.granted).permits).toBe(1)
    expect(await out()).toBe(3)
  })

  test('who wanted more than is free, and dies, lets in whom it kept waiting', async () => {
    const [one, dying, other] = [stage.client(), stage.client({ ttl: '2s' }), stage.client()]
    await one.semaphore('s', { permits: 3 }).acquire({ permits: 2 })
    const heavy = await join(dying, 3, 2, 1)
    const light = await join(other, 3, 1, 2)
    await stage.bury(dying)
    expect((await light.granted).permits).toBe(1)
    await expect(heavy.granted).rejects.toMatchObject({ code: 'lost', reason: 'expired' })
    expect(await out()).toBe(3)
  })

  test('200 callers of four clients at once: never more out than there are, by the database and by themselves', async () => {
    const clients = [stage.client(), stage.client(), stage.client(), stage.client()]
    const limit = 7
    let [inside, most, runs] = [0, 0, 0]
    let isOver = false
    const counted: number[] = []
    const observing = (async () => {
      while (!isOver) counted.push(await out())
    })()
    await Promise.all(
      Array.from({ length: 200 }, async (_, i) => {
        const semaphore = (clients[i % 4] as Fencepost).semaphore('s', { permits: limit })
        const permits = (i % 3) + 1
        await semaphore.withPermits({ permits }, async lock => {
          inside += permits
          most = Math.max(most, inside)
          runs += 1
          await new Promise(resolve => setTimeout(resolve, i % 3))
          lock.assertHeld()
          inside -= permits
        })
      }),
    )
    isOver = true
    await observing
    expect([runs, inside]).toEqual([200, 0])
    expect(most).toBeLessThanOrEqual(limit)
    expect(most).toBeGreaterThan(limit / 2)
    expect(Math.max(...counted)).toBeLessThanOrEqual(limit)
    expect(Math.max(...counted)).toBeGreaterThan(0)
  })

  test('another number than it has is refused, and both are named; so is a lock of that name', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const lock = await one.semaphore('s', { permits: 3 }).acquire()
    for (const refused of [
      other.semaphore('s', { permits: 5 }).acquire(),
      other.semaphore('s', { permits: 5 }).tryAcquire(),
    ]) {
      await expect(refused).rejects.toThrow(LimitMismatchError)
      await expect(refused).rejects.toMatchObject({
        code: 'limit_mismatch',
        key: 's',
        asked: 5,
        actual: 3,
        message: '"s" is a semaphore of 3 permits, and was asked for as a semaphore of 5 permits',
      })
    }
    for (const refused of [
      other.acquire('s'),
      other.tryAcquire('s', { mode: 'shared' }),
      other.acquire(['s', 't']),
    ])
      await expect(refused).rejects.toMatchObject({
        code: 'limit_mismatch',
        key: 's',
        asked: null,
        actual: 3,
      })
    await lock.release()
    // Nobody has any by now: it is a semaphore all the same.
    await expect(other.semaphore('s', { permits: 1 }).acquire()).rejects.toMatchObject({
      asked: 1,
      actual: 3,
    })
    expect(await stage.waiting('s')).toBe(0)
    expect(await stage.keysInUse()).toEqual([])
  })

  test('a key in use as a lock is no semaphore', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const semaphore = other.semaphore('s', { permits: 2 })
    for (const mode of ['exclusive', 'shared'] as const) {
      const lock = await one.acquire('s', { mode })
      await expect(semaphore.acquire()).rejects.toMatchObject({
        code: 'limit_mismatch',
        asked: 2,
        actual: null,
      })
      await lock.release()
    }
    expect((await semaphore.acquire()).permits).toBe(1)
  })

  test('withPermits answers what the section answers, and gives back whatever becomes of it', async () => {
    const client = stage.client()
    const semaphore = client.semaphore('s', { permits: 2 })
    expect([semaphore.name, semaphore.permits]).toEqual(['s', 2])
    expect(await semaphore.withPermits(lock => lock.permits)).toBe(1)
    expect(await semaphore.withPermits({ permits: 2 }, async lock => [lock.permits, await out()])).toEqual([
      2, 2,
    ])
    const failing = semaphore.withPermits({ permits: 2 }, () => Promise.reject(new Error('of the section')))
    await expect(failing).rejects.toThrow('of the section')
    expect(await out()).toBe(0)
  })

  test('a namespace is part of its name', async () => {
    const client = stage.client({ namespace: 'n' })
    const lock = await client.semaphore('s', { permits: 2 }).acquire()
    expect(lock.key).toBe('n:s')
    await client.semaphore('s', { permits: 2 }).resize(3)
    await expect(client.semaphore('s', { permits: 2 }).acquire()).rejects.toMatchObject({
      key: 'n:s',
      actual: 3,
    })
    expect((await stage.client().semaphore('s', { permits: 9 }).acquire()).state).toBe('held')
  })
})
