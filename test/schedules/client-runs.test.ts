// A key passed on inside a process: only while the database need not know whose turn it is (S12).
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Fencepost, Lock } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { Clients, callOf } from './support/clients.ts'
import { atGate, hook, shutGate, stopAtGate } from './support/hook.ts'
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

const inLine = (count: number) => until(async () => (await stage.line(key)).length === count)
const tokenOfRow = async () => (await stage.lock(key))?.token
const lastOfRun = async () => {
  const [row] = await stage.sql('select token_to from $schema.locks where key = $1', [key])
  return row?.token_to == null ? null : BigInt(row.token_to)
}

/** Requests of one client, in line behind another's lock that is then released: it has the key for all of them. */
async function run(fp: Fencepost, length: number): Promise<[Lock, ...Watched<Lock>[]]> {
  const before = await clients.direct().acquire(key)
  const asked: Watched<Lock>[] = []
  for (let i = 0; i < length; i += 1) {
    asked.push(watched(fp.acquire(key)))
    await inLine(i + 1)
  }
  await before.release()
  const [first, ...others] = asked as [Watched<Lock>, ...Watched<Lock>[]]
  const lock = await first.promise
  expect(await lastOfRun()).not.toBeNull()
  // It may learn of its own grant before it learns who else is in the run.
  await until(() => lock.run !== undefined)
  return [lock, ...others]
}

test('one turn follows the other without a word to the database', async () => {
  const fp = clients.direct({ poll: '60s' })
  const [first, second, third] = await run(fp, 3)
  const row = await tokenOfRow()
  const calls = fp.metrics().batches.release.count
  expect(await first.release()).toBe('released')
  const next = await (second as Watched<Lock>).promise
  expect([first.state, next.state, third?.state]).toEqual(['released', 'held', 'open'])
  await next.release()
  const last = await (third as Watched<Lock>).promise
  expect(fp.metrics()).toMatchObject({ passed: 2, batches: { release: { count: calls } }, held: 1 })
  expect(await tokenOfRow()).toBe(row)
  expect(last.token).toBe((row as bigint) + 2n)
  await last.release()
  expect(await stage.lock(key)).toBeUndefined()
  expect(fp.metrics()).toMatchObject({ acquires: { granted: 3 }, passed: 2, held: 0, pending: 0 })
})

test('another process that is in line before who comes later has its turn before', async () => {
  const fp = clients.direct({ poll: '60s' })
  const [first, second] = await run(fp, 2)
  const other = watched(clients.direct().acquire(key))
  await inLine(2)
  const late = watched(fp.acquire(key))
  await inLine(3)
  await first.release()
  await (await (second as Watched<Lock>).promise).release()
  const theirs = await other.promise
  expect(late.state).toBe('open')
  await theirs.release()
  await (await late.promise).release()
})

test('not after one whose token is known outside: the old one is refused by then', async () => {
  const fp = clients.direct({ poll: '60s' })
  const [first, second] = await run(fp, 2)
  const { token } = first
  await first.release()
  const next = await (second as Watched<Lock>).promise
  expect(fp.metrics().passed).toBe(0)
  expect(await tokenOfRow()).toBeGreaterThan(token + 1n)
  await expect(stage.sql('select $schema.assert_held($1, $2)', [key, token])).rejects.toMatchObject({
    code: 'FP003',
  })
  expect(next.token).toBe(await tokenOfRow())
})

test('nor is its token to be had afterwards, when the database could not tell it from the next', async () => {
  const fp = clients.direct({ poll: '60s' })
  const [first, second] = await run(fp, 2)
  await first.release()
  await (second as Watched<Lock>).promise
  expect(fp.metrics().passed).toBe(1)
  expect(() => first.token).toThrow(expect.objectContaining({ code: 'not_held' }))
})

test('not after one that pinned in a transaction, though that has ended', async () => {
  const fp = clients.direct({ poll: '60s' })
  const [first, second] = await run(fp, 2)
  await first.transaction(client => client.query('select 1'))
  await first.release()
  await (second as Watched<Lock>).promise
  expect(fp.metrics().passed).toBe(0)
})

test('not while a transaction of it has not been answered: who follows waits for its end', async () => {
  const fp = clients.direct({ poll: '200ms' })
  const [first, second] = await run(fp, 2)
  const pool = stage.db.pool()
  const client = await pool.connect()
  await client.query('begin')
  await first.guard(client)
  await first.release()
  await until(async () => (await stage.lock(key))?.released)
  expect(second?.state).toBe('open')
  await client.query('commit')
  client.release()
  await (second as Watched<Lock>).promise
  expect(fp.metrics().passed).toBe(0)
})

test.each([
  { lost: 'the reply to its commit', direction: 'toClient', pins: false },
  { lost: 'its commit itself', direction: 'toServer', pins: true },
] as const)('nor while nobody knows what became of it: $lost is on its way', async ({ direction, pins }) => {
  const fp = clients.direct({ poll: '200ms' })
  const { proxy } = await clients.proxied()
  const [first, second] = await run(fp, 2)
  const pool = stage.db.pool({ connectionString: proxy.url(stage.db.url) })
  const client = await pool.connect()
  await client.query('begin')
  await first.guard(client)
  proxy.hold(direction)
  const committed = client.query('commit')
  if (pins) {
    await first.release()
    await until(async () => (await stage.lock(key))?.released)
    expect(second?.state).toBe('open')
    proxy.release()
  } else {
    // By now nothing pins it: the next grant is the database's all the same.
    await until(
      async () => (await stage.sql('select from pg_stat_activity where query = $1', ['commit'])).length > 0,
    )
    await first.release()
  }
  const next = await (second as Watched<Lock>).promise
  expect([fp.metrics().passed, next.token > first.token]).toEqual([0, true])
  proxy.release()
  await committed
  client.release()
})

test('not for longer than the poll interval: everybody else sees only who was first', async () => {
  const fp = clients.direct({ poll: '100ms' })
  const [first, second] = await run(fp, 2)
  const row = await tokenOfRow()
  // What is tested is the clock: it must have moved.
  const since = performance.now()
  await until(() => performance.now() - since > 100)
  await first.release()
  await (second as Watched<Lock>).promise
  expect(fp.metrics().passed).toBe(0)
  expect(await tokenOfRow()).toBeGreaterThan((row as bigint) + 1n)
})

test('nor because a turn was passed on meanwhile: the interval is that of the run', async () => {
  const fp = clients.direct({ poll: '2s' })
  const [first, second, third] = await run(fp, 3)
  const row = await tokenOfRow()
  const learned = performance.now()
  // What is tested is the clock: it must have moved, before the turn and after it.
  await until(() => performance.now() - learned > 500)
  await first.release()
  const next = await (second as Watched<Lock>).promise
  expect(fp.metrics().passed).toBe(1)
  await until(() => performance.now() - learned > 2_000)
  await next.release()
  await (third as Watched<Lock>).promise
  expect(fp.metrics().passed).toBe(1)
  expect(await tokenOfRow()).toBeGreaterThan((row as bigint) + 2n)
})

test('who gives up before its turn is passed over, and nothing of it is left', async () => {
  const fp = clients.direct({ poll: '60s' })
  const controller = new AbortController()
  const before = await clients.direct().acquire(key)
  const first = watched(fp.acquire(key))
  await inLine(1)
  const second = watched(fp.acquire(key, { signal: controller.signal }))
  await inLine(2)
  const third = watched(fp.acquire(key))
  await inLine(3)
  await before.release()
  const lock = await first.promise
  await until(() => lock.run !== undefined)
  controller.abort()
  await until(() => second.state === 'failed')
  await inLine(1)
  await lock.release()
  await (await third.promise).release()
  expect(await stage.lock(key)).toBeUndefined()
})

test('the first gives up while the grant is on its way: who follows has it', async () => {
  const fp = clients.direct({ poll: '60s' })
  const controller = new AbortController()
  const before = await clients.direct().acquire(key)
  const first = watched(fp.acquire(key, { signal: controller.signal }))
  await inLine(1)
  const second = watched(fp.acquire(key))
  await inLine(2)
  const undo = await hook(stage, 'tick', { after: stopAtGate })
  const open = await shutGate(stage)
  await before.release()
  await until(async () => (await stage.lock(key))?.token !== undefined && (await lastOfRun()) !== null)
  controller.abort()
  await until(() => first.state === 'failed')
  await open()
  await undo()
  const lock = await second.promise
  expect(lock.state).toBe('held')
  await lock.release()
  await until(async () => (await stage.lock(key)) === undefined)
})

test('the answer that tells of it is lost: nobody in it is forgotten', async () => {
  const { fp, proxy } = await clients.proxied({ poll: '200ms', ttl: '5s' })
  const before = await clients.direct().acquire(key)
  const first = watched(fp.acquire(key))
  await inLine(1)
  const second = watched(fp.acquire(key))
  await inLine(2)
  const dropped = proxy.dropReplyAfter(callOf('tick'))
  await before.release()
  await dropped
  await (await first.promise).release()
  await (await second.promise).release()
  await until(async () => (await stage.lock(key)) === undefined)
})

test('taken by hand while the grant is on its way: nobody of it believes in it', async () => {
  const fp = clients.direct({ poll: '60s' })
  const operator = clients.direct()
  const held = await fp.acquire(stage.key('held'))
  const before = await clients.direct().acquire(key)
  const first = watched(fp.acquire(key))
  await inLine(1)
  const second = watched(fp.acquire(key))
  await inLine(2)
  const undo = await hook(stage, 'tick', { after: stopAtGate })
  const open = await shutGate(stage)
  await before.release()
  await until(async () => (await lastOfRun()) !== null && (await atGate(stage)) === 1)
  await operator.forceRelease(key, { reason: 'a test' })
  await held.renew()
  await open()
  await undo()
  await until(() => first.state === 'failed')
  expect(first.error).toMatchObject({ code: 'lost', reason: 'forced' })
  const lock = await second.promise
  expect(lock.token).toBe(await tokenOfRow())
})

test('a turn that lasts is what people see', async () => {
  const fp = clients.direct({ poll: '100ms' })
  const before = await clients.direct().acquire(key)
  const asked: Watched<Lock>[] = []
  for (const label of ['first', 'second', 'third']) {
    asked.push(watched(fp.acquire(key, { label })))
    await inLine(asked.length)
  }
  await before.release()
  const first = await (asked[0] as Watched<Lock>).promise
  await until(() => first.run !== undefined)
  await first.release()
  await (asked[1] as Watched<Lock>).promise
  const seen = async () => {
    const { held, pending } = await fp.query({ key })
    return [held.map(({ label }) => label), pending.map(({ label }) => label)]
  }
  await until(async () => JSON.stringify(await seen()) === JSON.stringify([['second'], ['third']]))
})

test('the grant is gone, and its turn was passed on while that was found out: who has it is told', async () => {
  const fp = clients.direct({ poll: '60s' })
  const held = await fp.acquire(stage.key('held'))
  const [first, second] = await run(fp, 3)
  await stage.sql('delete from $schema.waiters where key = $1', [key])
  await stage.sql('delete from $schema.locks where key = $1', [key])
  // Nor is anybody told meanwhile that the places are gone.
  await hook(stage, 'tick', { before: stopAtGate })
  await hook(stage, 'settle', { after: stopAtGate })
  const open = await shutGate(stage)
  await held.renew()
  await until(async () => (await atGate(stage)) === 2)
  await first.release()
  const lock = await (second as Watched<Lock>).promise
  expect(lock.state).toBe('held')
  await open()
  await until(() => lock.state === 'lost')
  expect(lock.lossReason).toBe('expired')
})

test('its session is over: the one is lost, and the others have lost their place', async () => {
  const fp = clients.direct({ poll: '60s' })
  const [first, second] = await run(fp, 2)
  await stage.sql(
    `update $schema.sessions set died = now(), generation = generation + 1
                    where id = (select session from $schema.locks where key = $1)`,
    [key],
  )
  await first.renew().catch(() => {})
  expect([first.state, first.lossReason]).toEqual(['lost', 'expired'])
  await until(() => second?.state === 'failed')
  expect(second?.error).toMatchObject({ code: 'lost' })
})

test('taken by hand: whose turn it is is told, and who follows is next in line', async () => {
  const fp = clients.direct({ poll: '60s' })
  const operator = clients.direct()
  const [first, second] = await run(fp, 2)
  const other = watched(clients.direct().acquire(key))
  await inLine(2)
  await operator.forceRelease(key, { reason: 'a test' })
  await first.renew().catch(() => {})
  expect([first.state, first.lossReason]).toEqual(['lost', 'forced'])
  await (await (second as Watched<Lock>).promise).release()
  await (await other.promise).release()
})
