import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import { settling } from '../conformance/settling.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { expectNothingLeft, leftovers } from '../support/leftovers.ts'
import { type PostgresProxy, startProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'

// The database goes away and comes back while callers ask, wait, hold and give back.

let db: TestDatabase
let proxy: PostgresProxy
let client: Fencepost
let other: Fencepost
let schema: string
beforeAll(async () => {
  db = await createDatabase()
  schema = pg.escapeIdentifier(db.schema)
})
beforeEach(async () => {
  proxy = await startProxy(db.url)
  client = new Fencepost({ connectionString: proxy.url(db.url), schema: db.schema })
  other = new Fencepost({ connectionString: db.url, schema: db.schema })
  await client.withLock('warm', () => {})
})
afterEach(async () => {
  await proxy.accept(true)
  proxy.release()
  await Promise.all([client.close(), other.close()])
  await proxy.close()
  await expectNothingLeft(db.pool({ max: 1 }), db.schema)
})
afterAll(() => db.drop())

const left = () => leftovers(db.pool({ max: 1 }), db.schema)

async function goAway(): Promise<void> {
  await proxy.accept(false)
  proxy.cut()
}

test('who asks while it is away is granted when it is back', async () => {
  await goAway()
  const acquiring = client.acquire('k')
  const trying = client.tryAcquire('other')
  await proxy.accept(true)
  expect((await acquiring).state).toBe('held')
  expect((await trying)?.state).toBe('held')
})

test('who asks while it is away for longer than the ttl is told why', async () => {
  const brief = new Fencepost({ connectionString: proxy.url(db.url), schema: db.schema, ttl: '1s' })
  await brief.withLock('warm', () => {})
  await goAway()
  await expect(brief.acquire('k')).rejects.toMatchObject({ code: 'unreachable', cause: expect.anything() })
  await brief.close()
  // Its session could not be closed: it expires, and somebody's tick clears it away.
  await until(async () => {
    await db.query(`select from ${schema}.tick(gen_random_uuid())`)
    return (await db.query(`select from ${schema}.sessions where ttl = '1s'`)).length === 0
  })
})

test('who waits keeps the place, who holds keeps the lock, and what was given back is free', async () => {
  const [held, given] = await Promise.all([client.acquire('held'), client.acquire('given')])
  const theirs = await other.acquire('k')
  const waiter = client.acquire('k')
  await until(async () => (await left()).tickets === 1)
  await goAway()
  const releasing = given.release()
  await expect(held.renew()).rejects.toMatchObject({ code: 'unreachable' })
  expect([held.state, held.signal.aborted]).toEqual(['degraded', false])
  await proxy.accept(true)
  expect(await releasing).toBe('released')
  await until(() => held.state === 'held')
  const behind = other.acquire('k')
  await until(async () => (await left()).tickets === 2)
  await theirs.release()
  const lock = await waiter
  const { token } = lock
  await lock.release()
  expect((await behind).token).toBeGreaterThan(token)
  expect((await other.tryAcquire('given'))?.state).toBe('held')
  expect(await other.tryAcquire('held')).toBeNull()
})

test('who gives up while it is away is told, and leaves nothing when it is back', async () => {
  const theirs = await other.acquire('k')
  const controller = new AbortController()
  const waiter = client.acquire('k', { signal: controller.signal })
  const timed = client.acquire('k', { timeout: 300 })
  await until(async () => (await left()).tickets === 2)
  await goAway()
  controller.abort()
  expect(await settling(waiter)).toMatchObject({ reason: { code: 'aborted' } })
  expect(await settling(timed)).toMatchObject({ reason: { code: 'timed_out' } })
  expect(await settling(client.acquire('new', { timeout: 50 }))).toMatchObject({
    reason: { code: 'timed_out' },
  })
  await proxy.accept(true)
  await until(async () => (await left()).tickets === 0)
  expect((await left()).grants).toBe(1)
  await theirs.release()
})

test('who gave up before a reply that never came leaves nothing, granted or in line', async () => {
  const theirs = await other.acquire('taken')
  proxy.hold('toClient')
  const controller = new AbortController()
  const { signal } = controller
  const asked = ['free', 'taken'].map(key => settling(client.acquire(key, { signal })))
  await until(async () => (await left()).tickets === 1 && (await left()).grants === 2)
  controller.abort()
  // Told although the database cannot be asked: there is no patience left when the connection is cut.
  for (const each of asked) expect(await each).toMatchObject({ reason: { code: 'aborted' } })
  proxy.cut()
  proxy.release()
  await until(async () => (await left()).tickets === 0 && (await left()).grants === 1)
  await theirs.release()
})

test('a close while it is away is bounded', async () => {
  await client.acquire('k')
  const waiter = other.acquire('k')
  await until(async () => (await left()).tickets === 1)
  await goAway()
  const began = performance.now()
  await client.close({ timeout: 100 })
  expect(performance.now() - began).toBeLessThan(5_000)
  // Its ttl is what is left to wait for.
  await db.query(
    `update ${schema}.sessions set expires_at = clock_timestamp()
      where id = (select session from ${schema}.locks where key = 'k')`,
  )
  expect((await waiter).state).toBe('held')
})

test('a close while it says nothing is bounded, however far its connections have come', async () => {
  const fresh: Fencepost[] = []
  const asked: Promise<unknown>[] = []
  // One after another, so that the last is about to connect when the first has all its connections.
  for (let i = 0; i < 30; i++) {
    const made = new Fencepost({ connectionString: proxy.url(db.url), schema: db.schema })
    fresh.push(made)
    asked.push(settling(made.acquire(`key ${i}`), 15_000))
    await new Promise(resolve => setTimeout(resolve, 5))
  }
  proxy.blackHole()
  const began = performance.now()
  await Promise.all(fresh.map(made => made.close({ timeout: 100 })))
  expect(performance.now() - began).toBeLessThan(5_000)
  await Promise.all(asked)
  for (const table of ['waiters', 'locks', 'sessions']) await db.query(`delete from ${schema}.${table}`)
})
