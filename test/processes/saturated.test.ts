// The user's pool has no connection to spare, for three times to live.
import { expect, test } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import { expectHeld } from '../support/held.ts'
import { until } from '../support/until.ts'
import { Stage } from './stage.ts'

const stage = new Stage()
const ttl = 4_000

test('nothing is lost, who waits is served, and the pool was not touched', async () => {
  const pool = stage.db.pool({ max: 2 })
  const fp = new Fencepost({ pool, schema: stage.db.schema, ttl })
  const lock = await fp.acquire('k')
  const { token } = lock
  const busy = await Promise.all([pool.connect(), pool.connect()])
  // They work all the time, each in a transaction that it holds open.
  for (const client of busy) await client.query('begin')
  const waiting = pool.query('select 1')
  const states = new Set<string>()
  const began = performance.now()
  await until(
    () => {
      states.add(lock.state)
      return performance.now() - began > 3 * ttl
    },
    { within: 4 * ttl },
  )
  expectHeld(states)
  expect([pool.totalCount, pool.waitingCount]).toEqual([2, 1])
  const next = fp.acquire('k')
  await stage.inLine('k', 1)
  expect(await lock.release()).toBe('released')
  const second = await next
  expect(second.token).toBeGreaterThan(token)
  expect(await second.release()).toBe('released')
  for (const client of busy) {
    await client.query('commit')
    client.release()
  }
  await waiting
  await fp.close()
})
