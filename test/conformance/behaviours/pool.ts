import { expect, test } from 'vitest'
import type { Stage } from '../stage.ts'

/** What Fencepost leaves of the application's own pool. */
export function pool(stage: Stage): void {
  test('with a pool of one, a lock held and another waited for, the application still queries', async ({
    skip,
  }) => {
    const way = stage.newWay({ max: 1 })
    if (!way.pool) return skip('it is given no pool')
    const client = stage.client({}, way)
    const lock = await client.acquire('k')
    const waiter = client.acquire('k')
    await stage.queued('k', 1)
    const { rows } = await way.pool.query('select 1 as one')
    expect(rows).toEqual([{ one: 1 }])
    await lock.release()
    expect((await waiter).state).toBe('held')
  })

  test('none of its connections is taken where Fencepost opens its own', async ({ skip }) => {
    const way = stage.newWay({ max: 1 })
    if (!way.pool || !way.opensItsOwn) return skip('it is given no pool, or calls it')
    // All of the pool is in use, before, while and after the lock is held.
    const taken = await way.pool.connect()
    const client = stage.client({}, way)
    const lock = await client.acquire('k')
    const waiter = client.acquire('k')
    await stage.queued('k', 1)
    await lock.release()
    await (await waiter).release()
    expect([way.pool.totalCount, way.pool.waitingCount]).toEqual([1, 0])
    taken.release()
  })

  test('fifty sections at once that query over a pool of two all end', async () => {
    const way = stage.newWay({ max: 2 })
    const client = stage.client({}, way)
    const database = way.pool ?? stage.db.pool({ max: 2 })
    const numbers = Array.from({ length: 50 }, (_, i) => i)
    const answers = await Promise.all(
      numbers.map(i =>
        client.withLock(`key ${i % 7}`, async () => {
          const { rows } = await database.query('select $1::int as n', [i])
          return rows[0].n
        }),
      ),
    )
    expect(answers).toEqual(numbers)
  })
}
