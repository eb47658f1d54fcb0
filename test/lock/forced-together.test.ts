import { describe, expect, test } from 'vitest'
import type { Fencepost, Lock } from '../../src/index.ts'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'
import { until } from '../support/until.ts'

describe('forced, where several hold the key', () => {
  const stage = new Stage(ways['a pool'])
  const reason = 'a test'
  type Take = (client: Fencepost) => Promise<Lock>
  const kinds: [name: string, take: Take, all: Take][] = [
    ['readers', client => client.acquire('k', { mode: 'shared' }), client => client.acquire('k')],
    [
      'permits',
      client => client.semaphore('k', { permits: 2 }).acquire(),
      client => client.semaphore('k', { permits: 2 }).acquire({ permits: 2 }),
    ],
  ]

  /** Settles once a loss was told, which is at the next heartbeat. */
  async function told(lock: Lock): Promise<void> {
    await lock.renew().catch(() => {})
    await until(() => lock.state === 'lost')
    expect([lock.lossReason, lock.signal.aborted, await lock.release()]).toEqual(['forced', true, 'forced'])
  }

  test.each(kinds)('%s: all of them at once, and who waits comes in', async (_, take, all) => {
    const [one, other, waiter] = [stage.client(), stage.client(), stage.client()]
    const locks = [await take(one), await take(other)]
    const waiting = all(waiter)
    await stage.queued('k', 1)
    await waiter.forceRelease('k', { reason, now: true })
    const next = await waiting
    for (const lock of locks) await told(lock)
    await next.renew()
    expect([next.state, await stage.holders('k')]).toEqual(['held', [stage.ownerOf(waiter)]])
  })

  test.each(kinds)('%s: one of them by its token, and the other is not touched', async (_, take, all) => {
    const [one, other, waiter] = [stage.client(), stage.client(), stage.client()]
    const [taken, kept] = [await take(one), await take(other)]
    await waiter.forceRelease('k', { reason, now: true, token: taken.token })
    await told(taken)
    await kept.renew()
    expect([kept.state, await stage.holders('k')]).toEqual(['held', [stage.ownerOf(other)]])
    const waiting = all(waiter)
    await stage.queued('k', 1)
    await kept.release()
    expect((await waiting).state).toBe('held')
  })

  test.each(kinds)('%s: marked, each gives it back when it is told', async (_, take, all) => {
    const [one, other, waiter] = [stage.client(), stage.client(), stage.client()]
    const locks = [await take(one), await take(other)]
    const waiting = all(waiter)
    await stage.queued('k', 1)
    await waiter.forceRelease('k', { reason })
    for (const lock of locks) await told(lock)
    expect((await waiting).state).toBe('held')
  })

  test.each(kinds)(
    '%s: a guarded transaction of one keeps its own place until it ends',
    async (_, take, all) => {
      const [one, other, waiter] = [stage.client(), stage.client(), stage.client()]
      const [pinned, beside] = [await take(one), await take(other)]
      const waiting = all(waiter)
      await stage.queued('k', 1)
      let left = -1
      const done = await pinned.transaction(async trx => {
        await trx.query('select 1')
        await waiter.forceRelease('k', { reason, now: true })
        await told(beside)
        left = (await stage.holders('k')).length + (await stage.waiting('k'))
        return 'committed'
      })
      expect([done, left]).toEqual(['committed', 1])
      expect((await waiting).state).toBe('held')
      await told(pinned)
    },
  )

  test('the line of a key that is closed for several goes on when its holder is forced', async () => {
    const [holder, wide] = [stage.client(), stage.client()]
    const lock = await holder.acquire('k')
    const waiting = wide.acquire(['j', 'k'])
    await stage.queued('k', 1)
    await wide.forceRelease('k', { reason, now: true })
    expect((await waiting).state).toBe('held')
    await told(lock)
  })

  test('marked in the middle of a downgrade: lost', async () => {
    const [holder, operator] = [stage.client(), stage.client()]
    const lock = await holder.acquire('k')
    await operator.forceRelease('k', { reason })
    await expect(lock.downgrade()).rejects.toMatchObject({ code: 'lost' })
    await told(lock)
  })
})
