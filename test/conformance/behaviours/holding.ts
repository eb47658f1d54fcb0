import { expect, test } from 'vitest'
import type { Fencepost } from '../../../src/index.ts'
import { expectHeld } from '../../support/held.ts'
import { until } from '../../support/until.ts'
import type { Stage } from '../stage.ts'

export function holding(stage: Stage): void {
  /** Until when the sessions of a client live by the database, in milliseconds since 1970, by their ttl. */
  async function expiry(client: Fencepost): Promise<Record<string, number>> {
    const rows = await stage.db.query<{ ttl: string; at: number }>(
      `select extract(epoch from ttl)::int || 's' as ttl, extract(epoch from expires_at)::float8 * 1000 as at
         from ${stage.sql('sessions')} where owner = $1 and died is null`,
      [stage.ownerOf(client)],
    )
    return Object.fromEntries(rows.map(({ ttl, at }) => [ttl, at]))
  }

  test('holds for more than twice its ttl', async () => {
    const [client, other] = [stage.client({ ttl: '2s' }), stage.client()]
    const lock = await client.acquire('k')
    const { signal } = lock
    const token = stage.token(lock)
    const began = (await expiry(client))['2s'] as number
    await until(
      async () => {
        expect(await other.tryAcquire('k')).toBeNull()
        return ((await expiry(client))['2s'] as number) - began > 4_500
      },
      { within: 10_000, every: 50, what: 'renewed for more than two ttls' },
    )
    expectHeld([lock.state])
    expect([stage.token(lock), signal.aborted]).toEqual([token, false])
    expect(await lock.release()).toBe('released')
  })

  test('two ttls in one client, each renewed', async () => {
    const client = stage.client({ ttl: '20s' })
    const [long, short] = await Promise.all([client.acquire('long'), client.acquire('short', { ttl: '2s' })])
    const began = await expiry(client)
    expect(Object.keys(began).sort()).toEqual(['20s', '2s'])
    await until(async () => {
      const now = await expiry(client)
      return (now['2s'] as number) > (began['2s'] as number)
    })
    await long.renew()
    expect((await expiry(client))['20s']).toBeGreaterThan(began['20s'] as number)
    expect([long.state, short.state]).toEqual(['held', 'held'])
    expect(short.remaining).toBeLessThanOrEqual(1_800)
    expect(long.remaining).toBeGreaterThan(2_000)
    expect(await client.tryAcquire('short')).toBeNull()
    expect(await client.tryAcquire('long', { ttl: '2s' })).toBeNull()
  })

  test('a renewal gives the whole ttl but the margin', async () => {
    const lock = await stage.client({ ttl: '10s' }).acquire('k')
    const before = lock.remaining
    expect(before).toBeLessThanOrEqual(9_500)
    await until(() => lock.remaining < before - 5)
    const low = lock.remaining
    const since = performance.now()
    await lock.renew()
    expect(lock.remaining).toBeGreaterThan(low - (performance.now() - since))
    expect(lock.remaining).toBeLessThanOrEqual(9_500)
  })

  test('who holds and who waits, and what for, is to be seen', async () => {
    const [one, other] = [stage.client({ ttl: '15s' }), stage.client()]
    const metadata = { job: 7, tags: ['a', null], text: 'é🔒' }
    const lock = await one.acquire('k', { label: 'the invoice', metadata })
    expect([lock.label, lock.metadata]).toEqual(['the invoice', metadata])
    const waiter = other.acquire('k', { label: 'another', metadata: 'text' })
    await stage.queued('k', 1)
    expect(
      await stage.db.query(
        `select key, token, owner, label, metadata, released, since <= clock_timestamp() as since,
                expires_at between clock_timestamp() + interval '5 s' and clock_timestamp() + interval '15 s' as expires
           from ${stage.sql('held')} where key = 'k'`,
      ),
    ).toEqual([
      {
        key: 'k',
        token: stage.token(lock).toString(),
        owner: stage.ownerOf(one),
        label: 'the invoice',
        metadata,
        released: false,
        since: true,
        expires: true,
      },
    ])
    expect(
      await stage.db.query(
        `select key, place::int, owner, label, metadata, info from ${stage.sql('pending')} where key = 'k'`,
      ),
    ).toMatchObject([
      {
        key: 'k',
        place: 1,
        owner: stage.ownerOf(other),
        label: 'another',
        metadata: 'text',
        info: { pid: process.pid },
      },
    ])
    await lock.release()
    expect((await waiter).label).toBe('another')
    expect(await stage.db.query(`select label, metadata from ${stage.sql('held')} where key = 'k'`)).toEqual([
      { label: 'another', metadata: 'text' },
    ])
  })

  test('a batch keeps the labels of its callers apart', async () => {
    const client = stage.client()
    const options = [{ label: 'one' }, {}, { metadata: 3 }, { label: 'four', metadata: { n: 4 } }]
    const keys = options.map((_, i) => `key ${i}`)
    await Promise.all(options.map((each, i) => client.acquire(keys[i] as string, each)))
    expect(
      await stage.db.query(
        `select key, label, metadata from ${stage.sql('held')} where key = any ($1) order by key`,
        [keys],
      ),
    ).toEqual([
      { key: 'key 0', label: 'one', metadata: null },
      { key: 'key 1', label: null, metadata: null },
      { key: 'key 2', label: null, metadata: 3 },
      { key: 'key 3', label: 'four', metadata: { n: 4 } },
    ])
  })
}
