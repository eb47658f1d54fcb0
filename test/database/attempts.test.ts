// A client whose server is away: how often it tries to connect, over all of its connections, whatever is asked of it.
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { Attempts } from '../../src/database/attempts.ts'
import { Fencepost } from '../../src/index.ts'
import { settling } from '../conformance/settling.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { type PostgresProxy, startProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'

let db: TestDatabase
let proxy: PostgresProxy
let attempts: number[]
beforeAll(async () => {
  db = await createDatabase()
})
beforeEach(() => {
  attempts = []
})
afterAll(() => db.drop())

/** One is made for each attempt. */
class Counted extends pg.Client {
  constructor(config?: pg.ClientConfig) {
    super(config)
    attempts.push(performance.now())
  }
}

/** A client with something on each of its connections: it holds, waits, gives back, asks. */
async function busy(): Promise<{ fp: Fencepost; end(): Promise<void> }> {
  proxy = await startProxy(db.url)
  const pool = new pg.Pool({
    connectionString: proxy.url(db.url),
    Client: Counted,
  } as unknown as pg.PoolConfig)
  const fp = new Fencepost({ pool, schema: db.schema, ttl: '20s' })
  const other = new Fencepost({ pool: db.url, schema: db.schema })
  const [, given, theirs] = [
    await fp.acquire('held'),
    await fp.acquire('given'),
    await other.acquire('theirs'),
  ]
  const waiting = settling(fp.acquire('theirs'), 60_000)
  await until(async () => (await other.query({ key: 'theirs' })).pending.length === 1)
  await proxy.accept(false)
  proxy.cut()
  attempts.length = 0
  void given.release()
  const asking = Array.from({ length: 20 }, (_, i) => settling(fp.acquire(`new ${i}`), 60_000))
  return {
    fp,
    end: async () => {
      await proxy.accept(true)
      proxy.release()
      await theirs.release()
      await Promise.all([waiting, ...asking])
      await Promise.all([fp.close(), other.close()])
      await Promise.all([pool.end(), proxy.close()])
    },
  }
}

test('while it is away: 240 attempts a minute at the most, once the waits have grown', async () => {
  const { end } = await busy()
  // Nine beginnings before the waits have grown: four lanes before any knows, and five shorter waits.
  await until(() => attempts.length >= 24, { within: 25_000 })
  const waits = attempts.map((at, i) => at - (attempts[i - 1] ?? at)).slice(10, 24)
  expect(Math.min(...waits)).toBeGreaterThan(245)
  expect(Math.max(...waits)).toBeLessThan(1_500)
  // Drawn by lot: a fleet does not come back in one moment.
  expect(new Set(waits.map(wait => Math.round(wait / 10))).size).toBeGreaterThan(3)
  await end()
})

test('when it is back, all of them are there at once', async () => {
  const { fp, end } = await busy()
  await until(() => attempts.length >= 12, { within: 15_000 })
  const gone = await fp.health({ timeout: 100 })
  expect(gone).toMatchObject({ reached: false, error: { code: 'unreachable' }, connections: 0 })
  expect(gone.trustLeft).toBeGreaterThan(0)
  await proxy.accept(true)
  const began = performance.now()
  await until(async () => (await fp.health({ timeout: 100 })).reached)
  expect(performance.now() - began).toBeLessThan(1_500)
  await until(async () => (await fp.health()).waking !== 'connecting')
  expect((await fp.health()).connections).toBeGreaterThanOrEqual(3)
  await end()
})

test('a turn that does not come within the timeout is refused with what the last attempt failed with', async () => {
  const all = new Attempts()
  await all.turn(0)
  const cause = new Error('refused')
  for (let i = 0; i < 6; i++) {
    all.failed(cause)
    await all.turn(1_000)
  }
  all.failed(cause)
  await expect(all.turn(1)).rejects.toBe(cause)
})

test('a success wakes who waits; a connection that breaks at once was none', async () => {
  const all = new Attempts()
  for (let i = 0; i < 6; i++) {
    all.failed(new Error('refused'))
    await all.turn(1_000)
  }
  const turn = all.turn(1_000)
  const began = performance.now()
  all.succeeded()
  await turn
  expect(performance.now() - began).toBeLessThan(100)
  const cause = new Error('broken at once')
  all.broke(performance.now(), cause)
  await expect(all.turn(1)).rejects.toBe(cause)
  all.succeeded()
  all.broke(performance.now() - 60_000, new Error('broken after a minute'))
  await all.turn(0)
})

test('a short ttl does not run out while its renewal waits for its turn: a twelfth of it at the most', async () => {
  const attempts = new Attempts(1_200)
  attempts.failed(new Error('gone'))
  for (let i = 0; i < 8; i++) await attempts.turn(1_000)
  const began = performance.now()
  await attempts.turn(1_000)
  expect(performance.now() - began).toBeLessThan(1_200 / 12 + 50)
})
