// A term that ends before trust does, for want of a renewal: what is left is the time to stop in.
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { type PostgresProxy, startProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'

let db: TestDatabase
let proxy: PostgresProxy
let client: Fencepost
beforeAll(async () => {
  db = await createDatabase()
})
beforeEach(async () => {
  proxy = await startProxy(db.twistedUrl)
  client = new Fencepost({ connectionString: proxy.url(db.twistedUrl), schema: db.schema, ttl: '4s' })
})
afterEach(async () => {
  await proxy.accept(true)
  proxy.release()
  await client.close()
  await proxy.close()
})
afterAll(() => db.drop())

async function cutOff(): Promise<void> {
  await proxy.accept(false)
  proxy.cut()
}

test('without it the term lasts as long as trust does', async () => {
  const election = client.election('e')
  const { signal, lock } = await election.campaign()
  await cutOff()
  await until(() => lock.state === 'degraded' && lock.remaining < 1_000)
  expect([election.isLeader, signal.aborted]).toEqual([true, false])
})

test('with it the term ends while the lock is held, which can be given back then', async () => {
  const election = client.election('e', { renewDeadline: '2s' })
  const { signal, lock } = await election.campaign()
  const states: unknown[] = []
  signal.addEventListener('abort', () => states.push(lock.state, election.isLeader, lock.remaining > 1_000))
  await cutOff()
  await until(() => signal.aborted)
  expect(states).toEqual(['degraded', false, true])
  expect(signal.reason).toMatchObject({ code: 'lost', reason: 'unreachable' })
  await proxy.accept(true)
  await until(() => lock.state === 'held')
  // Renewed, but the term is over: it does not come back.
  expect(election.isLeader).toBe(false)
  expect(await election.resign()).toBe('released')
  const again = await election.campaign()
  expect([election.isLeader, again.signal.aborted]).toEqual([true, false])
})

test('the clock is compared at that moment', async () => {
  const election = client.election('e', { renewDeadline: '2s' })
  const { signal, lock } = await election.campaign()
  // Longer than the deadline, and shorter than trust.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_200)
  expect([election.isLeader, lock.state]).toEqual([false, 'held'])
  expect(signal.aborted).toBe(true)
})

test('renewals put it off', async () => {
  const election = client.election('e', { renewDeadline: '2s' })
  const { signal } = await election.campaign()
  const renewedAt = async () =>
    (
      await db.query<{ at: string }>(
        `select renewed_at::text as at from ${pg.escapeIdentifier(db.schema)}.leader('e')`,
      )
    )[0]?.at
  const seen = new Set<string | undefined>()
  await until(async () => seen.add(await renewedAt()).size >= 4)
  expect([election.isLeader, signal.aborted]).toEqual([true, false])
})
