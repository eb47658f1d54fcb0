// An election over a database that takes two seconds to answer, for half a minute.
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { type PostgresProxy, startProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'

const candidates = 3
const seconds = 30

let db: TestDatabase
let proxy: PostgresProxy
beforeAll(async () => {
  db = await createDatabase()
  proxy = await startProxy(db.url)
})
afterAll(async () => {
  await proxy.close()
  await db.drop()
})

test('one change of leader at the most, and two statements a second of each client', {
  timeout: 120_000,
}, async () => {
  let statements = 0
  class Client extends pg.Client {
    // biome-ignore lint/suspicious/noExplicitAny: the driver's overloads
    override query(...args: any[]): any {
      statements += 1
      return (super.query as (...all: unknown[]) => unknown)(...args)
    }
  }
  const pool = new pg.Pool({ connectionString: proxy.url(db.url), Client })
  const clients = Array.from(
    { length: candidates },
    () => new Fencepost({ pool, schema: db.schema, ttl: '5s' }),
  )
  const ending = new AbortController()
  const { signal } = ending
  const led: bigint[] = []
  let [inside, beside] = [0, 0]
  const elections = clients.map(client => client.election('e'))
  const leading = elections.map(election =>
    election.lead(
      async term => {
        led.push(term.token)
        inside += 1
        if (inside > 1) beside += 1
        await new Promise<void>(resolve =>
          term.signal.addEventListener('abort', () => resolve(), { once: true }),
        )
        inside -= 1
      },
      { signal },
    ),
  )
  try {
    await until(() => elections.some(({ isLeader }) => isLeader))
    const waiting = `select from ${pg.escapeIdentifier(db.schema)}.waiters`
    await until(async () => (await db.query(waiting)).length === candidates - 1)
    const [terms, sent] = [led.length, statements]
    proxy.delay(1_000)
    const from = performance.now()
    await until(() => performance.now() - from > seconds * 1_000, { within: 2 * seconds * 1_000, every: 500 })
    const took = (performance.now() - from) / 1_000
    const rate = (statements - sent) / took / candidates
    expect(led.length - terms).toBeLessThanOrEqual(1)
    expect(beside).toBe(0)
    expect(rate).toBeLessThanOrEqual(2)
    // It was in use all that time.
    expect(rate).toBeGreaterThan(0.2)
  } finally {
    proxy.release()
    ending.abort()
    await Promise.all(leading)
    await Promise.all(clients.map(client => client.close()))
    await pool.end()
  }
})
