// Giving a key back and asking for it anew in one call: what the two calls would have done, and nothing between them.
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import type { Actor } from './support/actor.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
let one: Actor
let other: Actor
let key: string
beforeAll(async () => {
  stage = await Stage.create()
})
beforeEach(async () => {
  key = stage.key()
  ;[one, other] = [await stage.actor('one'), await stage.actor('other')]
})
afterEach(async () => expect(await stage.clear()).toEqual(nothing))
afterAll(() => stage.drop())

const ids = (count: number) => Array.from({ length: count }, () => randomUUID())
const tickets = () =>
  stage.sql('select request, token from $schema.waiters where key = $1 order by ticket', [key])
const lastOfRun = async () => {
  const [row] = await stage.sql('select token_to from $schema.locks where key = $1', [key])
  return row?.token_to == null ? null : BigInt(row.token_to)
}

test('nobody is in line: all of them have it, one after the other', async () => {
  const { token } = await one.acquire(key)
  const requests = ids(3)
  const answers = await one.releaseAndAcquire(key, token, requests)
  const row = await stage.lock(key)
  expect(row).toMatchObject({ session: one.session, contended: true, released: false })
  const first = row?.token as bigint
  expect(first).toBeGreaterThan(token as bigint)
  expect(answers).toMatchObject([
    { outcome: 'granted', request: requests[0], token: first },
    { outcome: 'follows', request: requests[1], token: first + 1n },
    { outcome: 'follows', request: requests[2], token: first + 2n },
  ])
  expect(await lastOfRun()).toBe(first + 2n)
  expect(await tickets()).toEqual([
    { request: requests[1], token: String(first + 1n) },
    { request: requests[2], token: String(first + 2n) },
  ])
  // Once more, from its last: whoever had a turn is in line no more.
  const [next] = ids(1)
  expect(await one.releaseAndAcquire(key, first + 2n, [next as string])).toMatchObject([
    { outcome: 'granted', request: next },
  ])
  expect([await tickets(), await lastOfRun()]).toEqual([[], null])
  expect(await stage.lock(key)).toMatchObject({ session: one.session, contended: false })
})

test('somebody is in line: it is theirs, and who asks is behind them', async () => {
  const { token } = await one.acquire(key)
  await other.acquire(key)
  const requests = ids(2)
  const answers = await one.releaseAndAcquire(key, token, requests)
  expect(answers.map(({ outcome, request }) => [outcome, request])).toEqual([
    ['released', null],
    ['handed', null],
    ['queued', requests[0]],
    ['queued', requests[1]],
  ])
  expect(await stage.lock(key)).toMatchObject({ session: other.session })
  expect((await tickets()).map(({ request }) => request)).toEqual(requests)
})

test('some of a run have had no turn: they are next, before who asks', async () => {
  const { token } = await one.acquire(key)
  const [first, second, third] = ids(3) as [string, string, string]
  await one.releaseAndAcquire(key, token, [first, second, third])
  const run = (await stage.lock(key))?.token as bigint
  const [late] = ids(1) as [string]
  const answers = await one.releaseAndAcquire(key, run + 1n, [late])
  expect(answers.map(({ outcome, request }) => [outcome, request])).toEqual([
    ['released', null],
    ['granted', third],
    ['queued', late],
  ])
  expect((await tickets()).map(({ request }) => request)).toEqual([late])
})

test('a guard has it pinned: it is marked, and moves on to who asks when that has ended', async () => {
  const { token } = await one.acquire(key)
  const guard = await stage.actor('guard', null)
  await guard.begin()
  await guard.guard(key, token)
  const requests = ids(2)
  const answers = await one.releaseAndAcquire(key, token, requests)
  expect(answers.map(({ outcome }) => outcome)).toEqual(['pinned', 'queued', 'queued'])
  expect(await stage.lock(key)).toMatchObject({ token, released: true })
  await guard.commit()
  expect(await one.tick([key], requests)).toContainEqual(
    expect.objectContaining({ outcome: 'granted', request: requests[0] }),
  )
})

test.each([
  { name: 'under a generation that was raised', generation: 1, expired: false },
  { name: 'of a session whose time is over', generation: 2, expired: true },
])('$name: nothing is done', async ({ generation, expired }) => {
  const { token } = await one.acquire(key)
  expect(await one.raiseGeneration()).toBe(2)
  if (expired) await stage.expire(one)
  const before = await stage.lock(key)
  const requests = ids(2)
  expect(await one.releaseAndAcquire(key, token, requests, generation)).toMatchObject([
    { outcome: 'dead', request: requests[0] },
    { outcome: 'dead', request: requests[1] },
    { outcome: 'again', token, key },
  ])
  expect([await stage.lock(key), await tickets()]).toEqual([before, []])
})

test('a token that does not hold it gives nothing back, and who asks is in line', async () => {
  const { token } = await one.acquire(key)
  const requests = ids(1)
  const answers = await one.releaseAndAcquire(key, (token as bigint) - 1n, requests)
  expect(answers.map(({ outcome }) => outcome)).toEqual(['absent', 'queued'])
  const theirs = await other.releaseAndAcquire(key, token, ids(1))
  expect(theirs.map(({ outcome }) => outcome)).toEqual(['absent', 'queued'])
  expect(await stage.lock(key)).toMatchObject({ session: one.session, token })
})

test('there is no such row any more: again', async () => {
  const requests = ids(1)
  expect(await one.releaseAndAcquire(key, 7n, requests)).toMatchObject([
    { outcome: 'absent', token: 7n },
    { outcome: 'again', request: requests[0] },
  ])
})

test('the reply is lost: the release, repeated, takes nothing, and the requests find what they have', async () => {
  const { token } = await one.acquire(key)
  const requests = ids(2)
  await one.releaseAndAcquire(key, token, requests)
  const before = await stage.lock(key)
  expect(await one.release(key, token)).toMatchObject([{ outcome: 'absent' }])
  expect(await one.raiseGeneration()).toBe(2)
  const answers = await one.acquireAll([key, key], requests, null, { generation: 2 })
  expect(answers.map(({ outcome, request }) => [outcome, request])).toEqual([
    ['granted', requests[0]],
    ['follows', requests[1]],
    ['queued', requests[1]],
  ])
  expect(await stage.lock(key)).toEqual(before)
})

test('more than a run is long: the rest is in line', async () => {
  const { token } = await one.acquire(key)
  const requests = ids(103)
  const answers = await one.releaseAndAcquire(key, token, requests)
  expect(answers.map(({ request }) => request)).toEqual(requests)
  const outcomes = answers.map(({ outcome }) => outcome)
  expect([outcomes.slice(0, 2), outcomes[99], outcomes[100], outcomes[102]]).toEqual([
    ['granted', 'follows'],
    'follows',
    'queued',
    'queued',
  ])
  expect(await lastOfRun()).toBe(((await stage.lock(key))?.token as bigint) + 99n)
})

test('what an operator took is free of the mark for who has it next', async () => {
  const { token } = await one.acquire(key)
  await other.forceRelease(key)
  const [request] = ids(1) as [string]
  await one.releaseAndAcquire(key, token, [request])
  const [row] = await stage.sql('select request, forced_until from $schema.locks where key = $1', [key])
  expect(row).toEqual({ request, forced_until: null })
})

test('without requests it is refused', async () => {
  const { token } = await one.acquire(key)
  await expect(one.releaseAndAcquire(key, token, [])).rejects.toMatchObject({ code: 'FP005' })
  expect(await stage.lock(key)).toMatchObject({ token })
})

const onTerms = async (actor: Actor, token: bigint, asks: readonly object[]) => {
  const requests = ids(asks.length)
  const answers = await actor.sql(
    'select request, outcome, token, level from $schema.release_and_acquire($1, 1, $2, $3, $4, asks => $5)',
    [actor.session, key, String(token), requests, asks.map(ask => JSON.stringify(ask))],
  )
  return requests.map(request => answers.find(answer => answer.request === request))
}
const taken = async (actor: Actor, ask: object) => {
  const [answer] = await actor.sql(
    'select outcome, token from $schema.acquire($1, 1, array[$2], array[$3::uuid], asks => array[$4::jsonb])',
    [actor.session, key, randomUUID(), JSON.stringify(ask)],
  )
  return BigInt(answer?.token ?? 0)
}

test('permits: who asks in the call that gives some back has them next, while they fit, and stands in line else', async () => {
  const permits = (count: number) => ({ mode: 'permits', permits: count, capacity: 3 })
  const token = await taken(one, permits(2))
  const [first, second, third] = await onTerms(one, token, [permits(1), permits(3), permits(1)])
  expect([first?.outcome, second?.outcome, third?.outcome]).toEqual(['granted', 'queued', 'queued'])
  expect(await stage.sql('select permits from $schema.holders where key = $1', [key])).toEqual([
    { permits: 1 },
  ])
  // Somebody is in line: who asks now is behind them, also where it would fit.
  const [last] = await onTerms(one, BigInt(first?.token), [permits(1)])
  expect(last?.outcome).toBe('queued')
  expect(await stage.sql('select permits from $schema.holders where key = $1', [key])).toEqual([
    { permits: 3 },
  ])
})

test('a reader who gives it back in the call in which readers and a writer ask: the readers are let in', async () => {
  const shared = { mode: 'shared' }
  await taken(other, shared)
  const token = await taken(one, shared)
  const asked = await onTerms(one, token, [shared, shared, {}, shared])
  expect(asked.map(answer => answer?.outcome)).toEqual(['granted', 'granted', 'queued', 'queued'])
  expect(asked[0]?.level).toBe(asked[1]?.level)
  expect(await stage.sql('select count(*)::int as count from $schema.holders where key = $1', [key])).toEqual(
    [{ count: 3 }],
  )
})

test('several keys are not asked for in it', async () => {
  const token = await taken(one, {})
  await expect(onTerms(one, token, [{ wide: true }])).rejects.toMatchObject({ code: 'FP005' })
})
