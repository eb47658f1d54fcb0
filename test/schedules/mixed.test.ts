// Shared locks, permits and several keys in one line: calls that once came out wrong, one after the other.
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import type { Actor, Terms } from './support/actor.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
let key: string
let actors: [Actor, Actor, Actor]
beforeAll(async () => {
  stage = await Stage.create()
})
afterEach(async () => expect(await stage.clear()).toEqual(nothing))
afterAll(() => stage.drop())

const shared: Terms = { mode: 'shared' }
const wide: Terms = { wide: true }
const reads = { terms: [shared] }

async function cast(): Promise<[Actor, Actor, Actor]> {
  key = stage.key()
  actors = [await stage.actor('one'), await stage.actor('two'), await stage.actor('three')]
  return actors
}

const holders = async () =>
  (await stage.sql('select session from $schema.holders where key = $1 order by token', [key])).map(
    row => row.session,
  )

describe('readers at the head', () => {
  test('are granted without the writer who is in line behind them', async () => {
    const [writer, reader, other] = await cast()
    const { token } = await writer.acquire(key)
    await reader.acquire(key, reads)
    await other.acquire(key)
    await writer.release(key, token)
    expect(await holders()).toEqual([reader.session])
    expect(await stage.line(key)).toEqual([other.session])
  })

  test('are not kept from it by a writer who is dead', async () => {
    const [one, dead, two] = await cast()
    await one.acquire(key, reads)
    await dead.acquire(key)
    const { request, outcome } = await two.acquire(key, reads)
    expect(outcome).toBe('queued')
    await stage.expire(dead)
    expect(await two.tick([key], [request as string])).toMatchObject([{ outcome: 'granted' }])
    expect(await stage.line(key)).toEqual([])
  })

  test('are granted when the try that came before them in the call is over', async () => {
    const [one, two] = await cast()
    await one.acquire(key, reads)
    const requests = [randomUUID(), randomUUID()]
    const answers = await two.acquireAll([key, key], requests, [false, true], { terms: [{}, shared] })
    expect(answers.map(({ request, outcome }) => [request, outcome]).sort()).toEqual(
      [
        [requests[0], 'busy'],
        [requests[1], 'granted'],
      ].sort(),
    )
  })
})

describe('several keys', () => {
  test('leave no row behind when the session that waits for them is dead', async () => {
    const [holder, dead, janitor] = await cast()
    const free = stage.key()
    const { token } = await holder.acquire(key)
    const request = randomUUID()
    await dead.acquireAll([key, free], [request, request], null, { terms: [wide, wide] })
    expect(await stage.lock(free)).toMatchObject({ session: null })
    await stage.expire(dead)
    await stage.reapDue()
    await janitor.tick()
    expect(await stage.lock(free)).toBeUndefined()
    await holder.release(key, token)
  })

  test('do not keep who waits behind them looking all the time', async () => {
    const [holder, one, two] = await cast()
    const free = stage.key()
    await holder.acquire(key)
    const request = randomUUID()
    await one.acquireAll([key, free], [request, request], null, { terms: [wide, wide] })
    expect(await two.acquire(free)).toMatchObject({ outcome: 'queued', expires_in: null })
  })

  test('asked for again when one of them was taken are waited for all together', async () => {
    const [one, two] = await cast()
    const other = stage.key()
    const request = randomUUID()
    const ask = () => one.acquireAll([key, other], [request, request], null, { terms: [wide, wide] })
    expect((await ask()).map(({ outcome }) => outcome)).toEqual(['granted', 'granted'])
    await two.forceRelease(other, { now: true })
    await two.acquire(other)
    const again = (await ask()).filter(answer => answer.request === request)
    expect(again.map(({ outcome }) => outcome)).toEqual(['queued', 'queued'])
    expect(await stage.lock(key)).toMatchObject({ session: null })
    expect(await stage.line(other)).toEqual([one.session])
  })

  test('tried in vain let those pass who came behind them in the call', async () => {
    const [one, two] = await cast()
    const other = stage.key()
    await one.acquireAll([key, other], undefined, null, { terms: [shared, {}] })
    const [request, behind] = [randomUUID(), randomUUID()]
    const answers = await two.acquireAll(
      [key, other, key],
      [request, request, behind],
      [false, false, true],
      { terms: [wide, wide, shared] },
    )
    expect(answers.filter(answer => answer.request === behind).at(-1)).toMatchObject({ outcome: 'granted' })
    expect(await holders()).toEqual([one.session, two.session])
  })
})

test('a turn of a run that was given up cannot be downgraded, and its run goes on', async () => {
  const [one, two] = await cast()
  const { token } = await one.acquire(key)
  const requests = [randomUUID(), randomUUID()]
  await two.acquireAll([key, key], requests)
  await one.release(key, token)
  const run = await stage.lock(key)
  expect(await two.cancel(key, requests[0] as string)).toMatchObject([{ outcome: 'cancelled' }])
  expect(await two.downgrade(key, run?.token as bigint)).toMatchObject([{ outcome: 'absent' }])
  expect(await two.downgrade(key, (run?.token as bigint) + 1n)).toMatchObject([
    { outcome: 'granted', request: requests[1] },
  ])
})

describe('permits', () => {
  test('asked for again after a resize are the same, and no mismatch', async () => {
    const [one, two] = await cast()
    const of = { terms: [{ mode: 'permits', permits: 2, capacity: 3 }] as const }
    const first = await one.acquire(key, of)
    const second = await two.acquire(key, of)
    await one.resize(key, 2)
    const repeat = (actor: Actor, request: string | null) =>
      actor.acquireAll([key], [request as string], null, of)
    expect(await repeat(one, first.request)).toMatchObject([{ outcome: 'granted', token: first.token }])
    expect(await repeat(two, second.request)).toMatchObject([{ outcome: 'queued' }])
    await stage.sql('delete from $schema.waiters')
  })

  test('cannot be downgraded', async () => {
    const [one] = await cast()
    const { token } = await one.acquire(key, { terms: [{ mode: 'permits', permits: 1, capacity: 1 }] })
    expect(await one.downgrade(key, token)).toMatchObject([{ outcome: 'absent' }])
  })
})
