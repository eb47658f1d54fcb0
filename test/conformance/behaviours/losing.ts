import { expect, test } from 'vitest'
import { type Lock, LostError } from '../../../src/index.ts'
import { until } from '../../support/until.ts'
import type { Stage } from '../stage.ts'

export function losing(stage: Stage): void {
  function expectLost(lock: Lock, reason: string): void {
    const lost = { code: 'lost', key: lock.key, reason }
    expect([lock.state, lock.lossReason, lock.remaining]).toEqual(['lost', reason, 0])
    expect(() => lock.assertHeld()).toThrow(expect.objectContaining(lost))
    expect(() => stage.token(lock)).toThrow(LostError)
    expect(lock.signal.aborted).toBe(true)
    expect(lock.signal.reason).toBeInstanceOf(LostError)
    expect(lock.signal.reason).toMatchObject(lost)
  }

  test('a session that the database has ended: all that it holds is lost, for one reason', async () => {
    const client = stage.client()
    const locks = await Promise.all(['a', 'b', 'c'].map(key => client.acquire(key)))
    const aborts: string[] = []
    for (const { signal, key } of locks) signal.addEventListener('abort', () => aborts.push(key))
    await stage.bury(client)
    await expect(locks[0]?.renew()).rejects.toMatchObject({
      code: 'lost',
      reason: 'expired',
      key: stage.named('a'),
    })
    for (const lock of locks) expectLost(lock, 'expired')
    expect(aborts.sort()).toEqual(['a', 'b', 'c'].map(key => stage.named(key)))
    await expect(locks[0]?.renew()).rejects.toMatchObject({ code: 'lost' })
  })

  test('it is told without asking, and the keys are free', async () => {
    const [client, other] = [stage.client({ ttl: '2s' }), stage.client()]
    const lock = await client.acquire('k')
    const { signal } = lock
    await stage.bury(client)
    await until(() => signal.aborted)
    expectLost(lock, 'expired')
    expect((await other.acquire('k')).state).toBe('held')
  })

  test('the next acquire works, and is renewed again', async () => {
    const client = stage.client({ ttl: '2s' })
    const lost = await client.acquire('k')
    const before = stage.token(lost)
    await stage.bury(client)
    await expect(lost.renew()).rejects.toThrow(LostError)
    const lock = await client.acquire('k')
    expect(stage.token(lock)).toBeGreaterThan(before)
    const expiry = async () => {
      const [row] = await stage.db.query<{ at: number }>(
        `select extract(epoch from expires_at)::float8 as at from ${stage.sql('held')} where key = 'k'`,
      )
      return row?.at ?? 0
    }
    const began = await expiry()
    await until(async () => (await expiry()) > began)
    expect(lock.state).toBe('held')
    expectLost(lost, 'expired')
  })

  test('an acquire that meets its own dead session gets the key all the same', async () => {
    const client = stage.client()
    const lost = await client.acquire('a')
    await stage.bury(client)
    expect((await client.acquire('b')).state).toBe('held')
    expectLost(lost, 'expired')
  })

  test('a place in line that went with its session is told', async () => {
    const [holder, client] = [stage.client(), stage.client({ ttl: '2s' })]
    const lock = await holder.acquire('k')
    const waiter = client.acquire('k')
    waiter.catch(() => {})
    await stage.queued('k', 1)
    await stage.bury(client)
    await expect(waiter).rejects.toThrow(LostError)
    await expect(waiter).rejects.toMatchObject({ reason: 'expired', key: stage.named('k') })
    await until(async () => (await stage.waiting('k')) === 0)
    await lock.release()
  })

  test('a grant that is gone from the database is lost; the others are not', async () => {
    const client = stage.client()
    const [taken, kept] = await Promise.all([client.acquire('taken'), client.acquire('kept')])
    for (const table of ['holders', 'locks'])
      await stage.db.query(`delete from ${stage.sql(table)} where key = 'taken'`)
    await kept.renew()
    await until(() => taken.state === 'lost')
    expectLost(taken, 'expired')
    expect(kept.state).toBe('held')
    expect(await taken.release()).toBe('expired')
  })

  test('a grant that nobody knows of is given back', async () => {
    const client = stage.client()
    const lock = await client.acquire('known')
    await stage.db.query(
      `insert into ${stage.sql('locks')} (key, session, request, token, mode, capacity)
       select 'ghost', session, case when mode is null then gen_random_uuid() end, token + 1000, mode, capacity
         from ${stage.sql('locks')} where key = 'known'`,
    )
    await stage.db.query(
      `insert into ${stage.sql('holders')} (key, token, session, request, permits, level)
       select 'ghost', token + 1000, session, gen_random_uuid(), permits, level
         from ${stage.sql('holders')} where key = 'known'`,
    )
    expect(await stage.holders('ghost')).toEqual([stage.ownerOf(client)])
    await lock.renew()
    await until(async () => (await stage.holders('ghost')).length === 0)
    expect([lock.state, await stage.holders('known')]).toEqual(['held', [stage.ownerOf(client)]])
  })
}
