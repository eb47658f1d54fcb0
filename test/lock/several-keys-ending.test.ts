import { describe, expect, test } from 'vitest'
import type { Fencepost, Lock } from '../../src/index.ts'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'
import { until } from '../support/until.ts'

describe('several keys that are given up, or lost', () => {
  const stage = new Stage(ways['a pool'])

  async function join(client: Fencepost, keys: string[], options = {}): Promise<{ granted: Promise<Lock> }> {
    const granted = client.acquire(keys, options)
    granted.catch(() => {})
    await until(async () => {
      const rows = await stage.db.query(
        `select from ${stage.sql('pending')} where owner = $1 and key = any ($2)`,
        [stage.ownerOf(client), keys],
      )
      return rows.length === keys.length
    })
    return { granted }
  }

  /** Which of these can be had. */
  async function free(keys: string[]): Promise<string[]> {
    const probe = stage.client()
    const locks = await Promise.all(keys.map(key => probe.tryAcquire(key)))
    await Promise.all(locks.map(lock => lock?.release()))
    return keys.filter((_, i) => locks[i] !== null)
  }

  test.each([
    { taken: 'a', how: 'timeout' },
    { taken: 'b', how: 'timeout' },
    { taken: 'c', how: 'abort' },
    { taken: 'a', how: 'abort' },
    { taken: 'b', how: 'close' },
  ])(
    'given up by $how while $taken is taken: the others are free, and nothing is left',
    async ({ taken, how }) => {
      const [one, other, behind] = [stage.client(), stage.client(), stage.client()]
      const lock = await one.acquire(taken)
      const controller = new AbortController()
      const { signal } = controller
      const wide = await join(other, ['a', 'b', 'c'], how === 'timeout' ? { timeout: '2s' } : { signal })
      const narrow = await join(behind, ['c'])
      if (how === 'abort') controller.abort()
      if (how === 'close') await other.close()
      await expect(wide.granted).rejects.toMatchObject({
        code: { timeout: 'timed_out', abort: 'aborted', close: 'closed' }[how],
      })
      const rest = await stage.db.query(`select owner from ${stage.sql('pending')} where owner = $1`, [
        stage.ownerOf(other),
      ])
      expect(rest).toEqual([])
      if (taken !== 'c') expect((await narrow.granted).state).toBe('held')
      expect(await free(['a', 'b'].filter(key => key !== taken))).toEqual(
        ['a', 'b'].filter(key => key !== taken),
      )
      await lock.release()
      await (await narrow.granted).release()
      await until(async () => (await stage.keysInUse()).length === 0)
    },
  )

  test('an abort that races the grant picks one outcome, and leaves nothing of the other', async () => {
    const [client, holder] = [stage.client(), stage.client()]
    const outcomes = new Set<string>()
    for (let round = 0; round < 30; round++) {
      const lock = round % 2 === 0 ? await holder.acquire('b') : undefined
      const controller = new AbortController()
      const acquiring = client.acquire(['a', 'b', 'c'], { signal: controller.signal })
      if (lock) await stage.queued('b', 1)
      const releasing = lock?.release()
      for (let turn = 0; turn < round / 2; turn++) await new Promise(setImmediate)
      controller.abort()
      try {
        await (await acquiring).release()
        outcomes.add('granted')
      } catch (error) {
        expect(error).toMatchObject({ code: 'aborted' })
        outcomes.add('aborted')
      }
      await releasing
      expect(await stage.keysInUse()).toEqual([])
    }
    expect(outcomes).toContain('aborted')
  })

  test('closing at any turn of an acquire leaves nothing', async () => {
    const probe = stage.client()
    for (let turns = 0; turns < 6; turns++) {
      const closing = stage.client()
      const acquiring = closing.acquire(['a', 'b', 'c'])
      acquiring.catch(() => {})
      for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate)
      await closing.close()
      await Promise.allSettled([acquiring])
      const lock = await probe.tryAcquire(['a', 'b', 'c'])
      expect(lock?.state).toBe('held')
      await lock?.release()
    }
  })

  test('one of them is forced: all is lost for that reason, one signal is aborted, and the others are given back', async () => {
    const [client, other] = [stage.client(), stage.client()]
    const lock = await client.acquire(['a', 'b', 'c'])
    const kept = await client.acquire('kept')
    const aborts: unknown[] = []
    lock.signal.addEventListener('abort', () => aborts.push(lock.signal.reason))
    const waiters = [await join(other, ['a']), await join(other, ['c'])]
    await other.forceRelease('b', { reason: 'a test', now: true })
    await kept.renew()
    for (const { granted } of waiters) expect((await granted).state).toBe('held')
    expect([lock.state, lock.lossReason]).toEqual(['lost', 'forced'])
    expect(aborts).toMatchObject([{ code: 'lost', reason: 'forced', key: 'a, b, c' }])
    expect(await lock.release()).toBe('forced')
    expect(kept.state).toBe('held')
    await until(async () => (await stage.holders('b')).length === 0)
  })

  test('one of them is gone from the database: the others are given back', async () => {
    const client = stage.client()
    const lock = await client.acquire(['a', 'b', 'c'])
    const { signal } = lock
    await stage.db.query(`delete from ${stage.sql('locks')} where key = 'b'`)
    await lock.renew().catch(() => {})
    await until(() => signal.aborted)
    expect([lock.state, lock.lossReason]).toEqual(['lost', 'expired'])
    await until(async () => (await stage.keysInUse()).length === 0)
  })

  test('the holder of one dies: who wanted it with others comes in', async () => {
    const [dying, waiter] = [stage.client(), stage.client()]
    await dying.acquire('b')
    const wide = await join(waiter, ['a', 'b'])
    await stage.expire(dying)
    expect((await wide.granted).state).toBe('held')
  })

  test('who wants several dies in line, at the head of one: those behind move up', async () => {
    const [holder, dying, last] = [stage.client(), stage.client({ ttl: '2s' }), stage.client()]
    const lock = await holder.acquire('b')
    await join(dying, ['a', 'b'])
    const behind = [await join(last, ['a']), await join(last, ['b'])]
    await stage.bury(dying)
    expect((await behind[0]?.granted)?.state).toBe('held')
    await lock.release()
    expect((await behind[1]?.granted)?.state).toBe('held')
  })

  test('holders of all of them die at once: each key moves on', async () => {
    const [dying, other] = [stage.client(), stage.client()]
    await dying.acquire(['a', 'b'])
    const waiters = [await join(other, ['a']), await join(other, ['b'])]
    await stage.expire(dying)
    for (const { granted } of waiters) expect((await granted).state).toBe('held')
  })
})
