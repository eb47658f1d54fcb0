import { expect, test } from 'vitest'
import { QueueFullError } from '../../../src/index.ts'
import { until } from '../../support/until.ts'
import type { Stage } from '../stage.ts'

export function limits(stage: Stage): void {
  test('beyond maxPending an acquire is refused at once; what is held does not count', async () => {
    const client = stage.client({ maxPending: 2 })
    const lock = await client.acquire('k')
    const waiters = [client.acquire('k'), client.acquire('k')]
    await stage.queued('k', 2)
    for (const key of ['k', 'another']) {
      const refused = client.acquire(key)
      await expect(refused).rejects.toThrow(QueueFullError)
      await expect(refused).rejects.toMatchObject({ code: 'queue_full', key: stage.named(key), limit: 2 })
    }
    expect(await stage.waiting('k')).toBe(2)
    await lock.release()
    const next = await waiters[0]
    waiters.push(client.acquire('k'))
    await stage.queued('k', 2)
    await next?.release()
    await (await waiters[1])?.release()
    await (await waiters[2])?.release()
  })

  test('beyond maxPendingPerKey the same, for that key', async () => {
    const client = stage.client({ maxPendingPerKey: 1 })
    const lock = await client.acquire('k')
    const waiter = client.acquire('k')
    await stage.queued('k', 1)
    await expect(client.acquire('k')).rejects.toMatchObject({ code: 'queue_full', key: 'k', limit: 1 })
    expect((await client.acquire('another')).state).toBe('held')
    await lock.release()
    await (await waiter).release()
    expect((await client.acquire('k')).state).toBe('held')
  })

  test('who has given up makes room', async () => {
    const client = stage.client({ maxPending: 3, maxPendingPerKey: 3 })
    const lock = await client.acquire('k')
    for (let round = 0; round < 3; round++) {
      const controller = new AbortController()
      const { signal } = controller
      const waiters = [
        client.acquire('k', { signal }),
        client.acquire('k', { signal }),
        client.acquire('k', { timeout: 20 }),
      ]
      const outcomes = Promise.allSettled(waiters)
      // The third may have come and gone by then.
      await until(async () => (await stage.waiting('k')) >= 2)
      controller.abort()
      expect((await outcomes).map(outcome => outcome.status)).toEqual(['rejected', 'rejected', 'rejected'])
    }
    await lock.release()
  })
}
