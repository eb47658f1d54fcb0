import { expect, test } from 'vitest'
import type { Fencepost, Lock } from '../../../src/index.ts'
import { until } from '../../support/until.ts'
import { isRising } from '../rising.ts'
import { settling } from '../settling.ts'
import type { Stage } from '../stage.ts'

export function line(stage: Stage): void {
  /** Joins the line, and settles when the place is taken. */
  async function join(client: Fencepost, key: string, place: number): Promise<{ granted: Promise<Lock> }> {
    const granted = client.acquire(key)
    granted.catch(() => {})
    await stage.queued(key, place)
    return { granted }
  }

  test('ten waiters of three clients are granted in the order in which they came', async () => {
    const clients = [stage.client(), stage.client(), stage.client()]
    let lock = await stage.client().acquire('k')
    const order: number[] = []
    const waiters: Promise<Lock>[] = []
    for (let i = 0; i < 10; i++) {
      const { granted } = await join(clients[i % 3] as Fencepost, 'k', i + 1)
      waiters.push(granted)
      void granted.then(() => order.push(i))
    }
    const tokens = [stage.token(lock)]
    for (const waiter of waiters) {
      await lock.release()
      lock = await waiter
      tokens.push(stage.token(lock))
    }
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    expect(isRising(tokens)).toBe(true)
  })

  test('a batch keeps the order of its callers', async () => {
    const lock = await stage.client().acquire('k')
    const client = stage.client()
    const order: number[] = []
    const callers = Array.from({ length: 5 }, (_, i) =>
      client.withLock('k', () => {
        order.push(i)
      }),
    )
    await stage.queued('k', 5)
    await lock.release()
    await Promise.all(callers)
    expect(order).toEqual([0, 1, 2, 3, 4])
  })

  test('who comes in the moment of a release does not overtake', async () => {
    const [holder, waiter, newcomer] = [stage.client(), stage.client(), stage.client()]
    await newcomer.acquire('other')
    for (let round = 0; round < 5; round++) {
      const lock = await holder.acquire('k')
      const tokens = [stage.token(lock)]
      const { granted } = await join(waiter, 'k', 1)
      const late = newcomer.acquire('k')
      const [tried] = await Promise.all([newcomer.tryAcquire('k'), lock.release()])
      expect(tried).toBeNull()
      const next = await granted
      tokens.push(stage.token(next))
      await next.release()
      const last = await late
      expect(isRising([...tokens, stage.token(last)])).toBe(true)
      await last.release()
    }
  })

  test('twenty keys that are waited for at once are handed over at once', async () => {
    const [holder, waiter] = [stage.client(), stage.client()]
    const keys = Array.from({ length: 20 }, (_, i) => `key ${i}`)
    const locks = await Promise.all(keys.map(key => holder.acquire(key)))
    const granted = Promise.all(keys.map(key => waiter.acquire(key)))
    for (const key of keys) await stage.queued(key, 1)
    await Promise.all(locks.map(lock => lock.release()))
    expect((await granted).map(lock => lock.key)).toEqual(keys.map(key => stage.named(key)))
  })

  test('a line outlives a waiter whose client is closed', async () => {
    const [holder, closing, last] = [stage.client(), stage.client(), stage.client()]
    const lock = await holder.acquire('k')
    const first = await join(closing, 'k', 1)
    const second = await join(last, 'k', 2)
    await closing.close()
    await expect(first.granted).rejects.toMatchObject({ code: 'closed' })
    expect(await stage.waiting('k')).toBe(1)
    await lock.release()
    expect((await second.granted).state).toBe('held')
  })

  test('a line outlives a head whose session has died, and the dead is told', async () => {
    const [holder, dying, last] = [stage.client(), stage.client({ ttl: '2s' }), stage.client()]
    const lock = await holder.acquire('k')
    const first = await join(dying, 'k', 1)
    const second = await join(last, 'k', 2)
    await stage.bury(dying)
    await lock.release()
    expect((await second.granted).state).toBe('held')
    const told = await settling(first.granted)
    expect(told).toMatchObject({
      status: 'rejected',
      reason: { code: 'lost', reason: 'expired', key: stage.named('k') },
    })
    expect(await stage.waiting('k')).toBe(0)
  })

  test('a waiter is not forgotten when its holder dies', async () => {
    const [dying, waiter] = [stage.client(), stage.client()]
    await dying.acquire('k')
    const { granted } = await join(waiter, 'k', 1)
    await stage.expire(dying)
    expect((await granted).state).toBe('held')
    expect(await stage.holders('k')).toEqual([stage.ownerOf(waiter)])
  })

  test('a try takes the key of a holder that has died, where nobody waits', async () => {
    const [dying, trying] = [stage.client(), stage.client()]
    await dying.acquire('k')
    await stage.expire(dying)
    // A slow call judges nobody: then it is the next one.
    expect((await until(() => trying.tryAcquire('k'))).state).toBe('held')
  })
}
