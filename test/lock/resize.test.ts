import { describe, expect, test } from 'vitest'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'

describe.each(['a pool', 'a query function'] as const)('resizing a semaphore, over %s', way => {
  const stage = new Stage(ways[way])

  test('up: who waits comes in, and who asks under the old number is refused', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const semaphore = one.semaphore('s', { permits: 2 })
    await semaphore.acquire({ permits: 2 })
    const waiters = [semaphore.acquire(), other.semaphore('s', { permits: 2 }).acquire({ permits: 2 })]
    await stage.queued('s', 2)
    await semaphore.resize(5)
    expect((await Promise.all(waiters)).map(lock => lock.permits)).toEqual([1, 2])
    expect(semaphore.permits).toBe(5)
    expect(await semaphore.tryAcquire()).toBeNull()
    await expect(other.semaphore('s', { permits: 2 }).tryAcquire()).rejects.toMatchObject({
      code: 'limit_mismatch',
      asked: 2,
      actual: 5,
    })
  })

  test('down: who holds more keeps them, and nobody comes in until there is room', async () => {
    const client = stage.client()
    const semaphore = client.semaphore('s', { permits: 4 })
    const held = [await semaphore.acquire({ permits: 2 }), await semaphore.acquire({ permits: 2 })]
    await semaphore.resize(3)
    const waiter = semaphore.acquire()
    await stage.queued('s', 1)
    expect(held.map(lock => lock.state)).toEqual(['held', 'held'])
    await held[0]?.renew()
    expect(held.map(lock => lock.state)).toEqual(['held', 'held'])
    await held[0]?.release()
    expect((await waiter).permits).toBe(1)
    expect(await semaphore.tryAcquire()).toBeNull()
  })

  test('down: who waits for more than there will ever be is told, and those behind move up', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const semaphore = one.semaphore('s', { permits: 4 })
    const held = await semaphore.acquire({ permits: 1 })
    const heavy = other.semaphore('s', { permits: 4 }).acquire({ permits: 4 })
    heavy.catch(() => {})
    await stage.queued('s', 1)
    const behind = other.semaphore('s', { permits: 4 }).acquire({ permits: 1 })
    await stage.queued('s', 2)
    await semaphore.resize(2)
    expect((await behind).state).toBe('held')
    await expect(heavy).rejects.toMatchObject({ code: 'limit_mismatch', asked: 4, actual: 2 })
    expect(await stage.waiting('s')).toBe(0)
    await held.release()
  })

  test('of one that nobody has used yet: the first acquire writes it down', async () => {
    const semaphore = stage.client().semaphore('s', { permits: 2 })
    await semaphore.resize(3)
    expect(semaphore.permits).toBe(3)
    await semaphore.acquire({ permits: 3 })
    await expect(stage.client().semaphore('s', { permits: 2 }).acquire()).rejects.toMatchObject({ actual: 3 })
  })

  test('of one that nobody has permits of', async () => {
    const semaphore = stage.client().semaphore('s', { permits: 2 })
    await (await semaphore.acquire()).release()
    await semaphore.resize(1)
    await expect(stage.client().semaphore('s', { permits: 2 }).acquire()).rejects.toMatchObject({ actual: 1 })
    expect((await semaphore.acquire()).permits).toBe(1)
  })

  test('a number that is none, or a client that is closed: nothing is changed', async () => {
    const client = stage.client()
    const semaphore = client.semaphore('s', { permits: 2 })
    await (await semaphore.acquire()).release()
    for (const bad of [0, -1, 1.5, Number.NaN, 2 ** 31, '3' as unknown as number])
      await expect(semaphore.resize(bad)).rejects.toMatchObject({ code: 'bad_option' })
    expect(semaphore.permits).toBe(2)
    await client.close()
    await expect(semaphore.resize(3)).rejects.toMatchObject({ code: 'closed' })
    expect((await stage.client().semaphore('s', { permits: 2 }).acquire()).state).toBe('held')
  })
})
