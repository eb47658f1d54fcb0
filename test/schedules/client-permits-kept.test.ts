// Permits that are not passed on inside a process: they go back through the database.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Fencepost, Lock } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { Clients } from './support/clients.ts'
import { Stage } from './support/stage.ts'
import { type Watched, watched } from './support/watched.ts'

let stage: Stage
let clients: Clients
let key: string
beforeAll(async () => {
  stage = await Stage.create()
  clients = new Clients(stage)
})
beforeEach(() => {
  key = stage.key()
})
afterEach(() => clients.end())
afterAll(() => stage.drop())

const holders = () => stage.sql('select token, released from $schema.holders where key = $1', [key])
const tokenOfRow = async () => BigInt((await holders())[0]?.token ?? 0)
const following = async () =>
  (await stage.sql('select from $schema.waiters where key = $1 and follows', [key])).length

/** One of a client's requests has the only permit, and the others may have it from that one. */
async function line(fp: Fencepost, length: number): Promise<[Lock, ...Watched<Lock>[]]> {
  const semaphore = fp.semaphore(key, { permits: 1 })
  const first = await semaphore.acquire()
  const others = Array.from({ length: length - 1 }, () => watched(semaphore.acquire()))
  await until(async () => (await following()) === others.length)
  // By the connection that has asked for it: what follows has been answered.
  await fp.tokenBase()
  return [first, ...others]
}

test('while nothing speaks against it they are', async () => {
  const fp = clients.direct({ poll: '60s' })
  const [first, second] = await line(fp, 2)
  const row = await tokenOfRow()
  await first.release()
  await (second as Watched<Lock>).promise
  expect([fp.metrics().passed, await tokenOfRow()]).toEqual([1, row])
})

test('not for longer than the poll interval: everybody else sees only who was first', async () => {
  const fp = clients.direct({ poll: '200ms' })
  const [first, second] = await line(fp, 2)
  const row = await tokenOfRow()
  // What is tested is the clock: it must have moved.
  const since = performance.now()
  await until(() => performance.now() - since > 200)
  await first.release()
  await (second as Watched<Lock>).promise
  expect(fp.metrics().passed).toBe(0)
  expect(await tokenOfRow()).toBeGreaterThan(row)
})

test('nor because they were passed on meanwhile: the interval begins with the last mark', async () => {
  const fp = clients.direct({ poll: '2s' })
  const [first, second, third] = await line(fp, 3)
  const row = await tokenOfRow()
  const marked = performance.now()
  await until(() => performance.now() - marked > 500)
  await first.release()
  const next = await (second as Watched<Lock>).promise
  expect([fp.metrics().passed, await tokenOfRow()]).toEqual([1, row])
  await until(() => performance.now() - marked > 2_000)
  await next.release()
  await (third as Watched<Lock>).promise
  expect(fp.metrics().passed).toBe(1)
  expect(await tokenOfRow()).toBeGreaterThan(row)
})

test('not while a transaction of who has them has not been answered: who follows waits for its end', async () => {
  const fp = clients.direct({ poll: '200ms' })
  const [first, second] = await line(fp, 2)
  const client = await stage.db.pool().connect()
  await client.query('begin')
  await first.guard(client)
  await first.release()
  await until(async () => (await holders())[0]?.released)
  expect(second?.state).toBe('open')
  await client.query('commit')
  client.release()
  await (second as Watched<Lock>).promise
  expect(fp.metrics().passed).toBe(0)
})

test('not after one that pinned in a transaction, though that has ended', async () => {
  const fp = clients.direct({ poll: '60s' })
  const [first, second] = await line(fp, 2)
  await first.transaction(client => client.query('select 1'))
  await first.release()
  await (second as Watched<Lock>).promise
  expect(fp.metrics().passed).toBe(0)
})

test('taken by hand: who has them is told, and who follows has others', async () => {
  const fp = clients.direct({ poll: '60s' })
  const [first, second] = await line(fp, 2)
  const row = await tokenOfRow()
  await clients.direct().forceRelease(key, { reason: 'a test' })
  await first.renew().catch(() => {})
  expect([first.state, first.lossReason, await first.release()]).toEqual(['lost', 'forced', 'forced'])
  await (second as Watched<Lock>).promise
  expect(fp.metrics().passed).toBe(0)
  expect(await tokenOfRow()).toBeGreaterThan(row)
})

test('taken by hand after they were passed on: who has them by then is told', async () => {
  const fp = clients.direct({ poll: '60s' })
  const [first, second, third] = await line(fp, 3)
  const row = await tokenOfRow()
  await first.release()
  const next = await (second as Watched<Lock>).promise
  await clients.direct().forceRelease(key, { reason: 'a test' })
  await next.renew().catch(() => {})
  expect([next.state, next.lossReason]).toEqual(['lost', 'forced'])
  const last = await (third as Watched<Lock>).promise
  expect(last.state).toBe('held')
  expect(await tokenOfRow()).toBeGreaterThan(row)
})

test('their session is over: the one has lost them, and the other its place', async () => {
  const fp = clients.direct({ poll: '60s' })
  const [first, second] = await line(fp, 2)
  await stage.sql(
    `update $schema.sessions set died = now(), generation = generation + 1
      where id = (select session from $schema.holders where key = $1)`,
    [key],
  )
  await first.renew().catch(() => {})
  expect([first.state, first.lossReason, await first.release()]).toEqual(['lost', 'expired', 'expired'])
  await until(() => second?.state === 'failed')
  expect(second?.error).toMatchObject({ code: 'lost' })
  expect(fp.metrics().passed).toBe(0)
})
