// Runs: a grant that covers several requests of one process, which take turns without the database (S12).
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import type { Actor } from './support/actor.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
let holder: Actor
let one: Actor
let other: Actor
let key: string
beforeAll(async () => {
  stage = await Stage.create()
})
beforeEach(async () => {
  key = stage.key()
  const cast = await Promise.all(['holder', 'one', 'other'].map(name => stage.actor(name)))
  ;[holder, one, other] = cast as [Actor, Actor, Actor]
})
afterEach(async () => expect(await stage.clear()).toEqual(nothing))
afterAll(() => stage.drop())

/** Has them in line for the key in this order while `holder` has it, and hands it over. Their requests, in order. */
async function handedOver(...line: Actor[]): Promise<{ requests: string[]; token: bigint; told: unknown[] }> {
  const { token } = await holder.acquire(key)
  const requests: string[] = []
  for (const actor of line) {
    const request = randomUUID()
    expect((await actor.acquire(key, { request })).outcome).toBe('queued')
    requests.push(request)
  }
  await holder.release(key, token)
  const told = await one.tick([key], [requests[0] as string])
  return { requests, token: (await stage.lock(key))?.token as bigint, told }
}

const lastOfRun = async () => {
  const [row] = await stage.sql('select token_to from $schema.locks where key = $1', [key])
  return row?.token_to == null ? null : BigInt(row.token_to)
}
const isGood = async (token: bigint) => {
  await one.begin()
  const good = await one.guard(key, token).then(
    () => true,
    error => {
      expect(error).toMatchObject({ code: 'FP003' })
      return false
    },
  )
  await one.rollback()
  return good
}

test('it covers the tickets of one process at the head of the line, in their order, and no more', async () => {
  const { requests, token, told } = await handedOver(one, one, other, one)
  expect(await lastOfRun()).toBe(token + 1n)
  expect(told).toMatchObject([
    { outcome: 'granted', request: requests[0], token },
    { outcome: 'granted', request: requests[0], token },
    { outcome: 'follows', request: requests[1], token: token + 1n },
  ])
  expect(await stage.line(key)).toEqual([one.session, other.session, one.session])
  await one.release(key, token + 1n)
  expect(await stage.lock(key)).toMatchObject({ session: other.session })
  expect(await stage.line(key)).toEqual([one.session])
})

test('whoever of it is asked for, all of it is told', async () => {
  const { requests, token } = await handedOver(one, one, one)
  const answers = await one.tick([key], [requests[2] as string])
  expect(answers.map(({ outcome, request }) => [outcome, request])).toEqual([
    ['queued', requests[2]],
    ['granted', requests[0]],
    ['follows', requests[1]],
    ['follows', requests[2]],
  ])
  const [settled] = await one.sql('select requests, tokens, last from $schema.settle($1)', [one.session])
  const tokens = [token, token + 1n, token + 2n].map(String)
  expect(settled).toEqual({ requests, tokens, last: tokens[2] })
  expect(await one.heartbeat()).toMatchObject({ held: 1n, tokens: token })
})

test('each of its tokens is good, and none from before or after it', async () => {
  const { token } = await handedOver(one, one, one)
  expect([await isGood(token - 1n), await isGood(token), await isGood(token + 2n)]).toEqual([
    false,
    true,
    true,
  ])
  expect(await isGood(token + 3n)).toBe(false)
  await one.release(key, token)
  expect([await isGood(token), await isGood(token + 1n), await isGood(token + 2n)]).toEqual([
    false,
    false,
    false,
  ])
})

test('who has not had its turn when it ends is next in line, under a number of its own', async () => {
  const { requests, token } = await handedOver(one, one, other)
  const answers = await one.release(key, token)
  const next = (await stage.lock(key))?.token as bigint
  expect(next).toBeGreaterThan(token + 1n)
  expect(answers).toMatchObject([
    { outcome: 'released', token },
    { outcome: 'granted', request: requests[1], token: next },
  ])
  expect(await stage.line(key)).toEqual([other.session])
  // The release, once more: it does not touch the newer grant.
  expect(await one.release(key, token)).toMatchObject([{ outcome: 'absent' }])
  expect(await stage.lock(key)).toMatchObject({ session: one.session, token: next })
})

test('who gave up before its turn is left out, and the grant stands', async () => {
  const { requests, token } = await handedOver(one, one, one, other)
  expect(await one.cancel(key, requests[1] as string)).toMatchObject([{ outcome: 'cancelled' }])
  expect(await stage.lock(key)).toMatchObject({ token })
  await one.release(key, token + 2n)
  expect(await stage.lock(key)).toMatchObject({ session: other.session })
  expect(await stage.line(key)).toEqual([])
})

test('its first gives up late, when another may have its turn: the grant stands', async () => {
  const { requests, token } = await handedOver(one, one, other)
  expect(await one.cancel(key, requests[0] as string)).toMatchObject([{ outcome: 'cancelled' }])
  expect(await stage.lock(key)).toMatchObject({ session: one.session, token, released: false })
  expect(await one.tick([key], [requests[1] as string])).toMatchObject([
    { outcome: 'queued' },
    { outcome: 'granted', request: null, token },
    { outcome: 'follows', request: requests[1], token: token + 1n },
  ])
  expect(await isGood(token + 1n)).toBe(true)
})

test.each([[[0, 1, 2]], [[2, 1, 0]], [[1, 0, 2]]])(
  'all of it give up, in the order %j: it moves on',
  async order => {
    const { requests } = await handedOver(one, one, one, other)
    for (const place of order) {
      expect(await stage.lock(key)).toMatchObject({ session: one.session })
      await one.cancel(key, requests[place] as string)
    }
    expect(await stage.lock(key)).toMatchObject({ session: other.session })
  },
)

test('a guard of one who had its turn keeps out who follows', async () => {
  const { requests, token } = await handedOver(one, one)
  const guard = await stage.actor('guard', null)
  await guard.begin()
  await guard.guard(key, token)
  expect(await one.release(key, token)).toMatchObject([{ outcome: 'pinned' }])
  expect(await one.tick([key], [requests[1] as string])).toMatchObject([{ outcome: 'queued' }])
  expect(await isGood(token + 1n)).toBe(false)
  await guard.commit()
  expect(await one.tick([key], [requests[1] as string])).toMatchObject([
    { outcome: 'granted', request: requests[1] },
  ])
})

test('somebody else draws a number in between: it ends there, for the number is another key’s', async () => {
  await stage.sql('alter sequence $schema.fencing increment by 2')
  stage.atEnd(async () => void (await stage.sql('alter sequence $schema.fencing increment by 1')))
  const { token, told } = await handedOver(one, one)
  expect(told).toMatchObject([{ outcome: 'granted', token }])
  expect(await lastOfRun()).toBeNull()
  expect(await isGood(token + 1n)).toBe(false)
  expect(await stage.line(key)).toEqual([one.session])
})

test('a number from a run that is over makes nobody’s turn', async () => {
  const { requests, token } = await handedOver(one, one, one)
  // The next grant is no run: whoever was in the first keeps its number from then.
  await stage.sql('alter sequence $schema.fencing increment by 2')
  stage.atEnd(async () => void (await stage.sql('alter sequence $schema.fencing increment by 1')))
  await one.release(key, token)
  const second = (await stage.lock(key))?.token as bigint
  expect(second).toBeGreaterThan(token + 2n)
  expect(await one.tick([key], [requests[2] as string])).toMatchObject([{ outcome: 'queued' }])
  expect(await one.release(key, second)).toMatchObject([
    { outcome: 'released' },
    { outcome: 'granted', request: requests[2] },
  ])
})

test('the end of a run leaves alone who was in an earlier one and is in none now', async () => {
  const { token } = await handedOver(one, one, one)
  await one.release(key, token)
  const second = (await stage.lock(key))?.token as bigint
  const late = randomUUID()
  await one.acquire(key, { request: late })
  // As if its number in the first run were all that it has.
  await stage.sql('update $schema.waiters set token = $2 where request = $1', [late, String(token + 1n)])
  await one.release(key, second + 1n)
  expect(await stage.lock(key)).toMatchObject({ session: one.session })
  expect(await one.tick([key], [late])).toMatchObject([{ outcome: 'granted', request: late }])
})

test('forced by any of its tokens, it moves on as one grant', async () => {
  const { token } = await handedOver(one, one, other)
  const operator = await stage.actor('operator', null)
  expect(await operator.forceRelease(key, { token: token + 1n })).toMatchObject([
    { outcome: 'forced', token },
  ])
  expect((await one.heartbeat()).forced).toEqual([token])
  expect(await isGood(token + 1n)).toBe(false)
})

test('its session dies, and all of it', async () => {
  await handedOver(one, one, one, other)
  await stage.expire(one)
  await other.tick([key], [])
  expect(await stage.lock(key)).toMatchObject({ session: other.session })
  expect(await stage.line(key)).toEqual([])
})

test('a request of it that is sent again is in line once, and is told of all of it', async () => {
  const { requests } = await handedOver(one, one, other)
  expect((await one.acquire(key, { request: requests[1] as string })).outcome).toBe('queued')
  expect(await one.acquireAll([key], [requests[0] as string])).toMatchObject([
    { outcome: 'granted', request: requests[0] },
    { outcome: 'follows', request: requests[1] },
  ])
  expect(await stage.line(key)).toEqual([one.session, other.session])
})

test('a turn that is told is what people see; the grant and its range stay', async () => {
  const { requests, token } = await handedOver(one, one, one, other)
  await one.sql('select $schema.turn($1, $2, $3)', [one.session, [key], [String(token + 1n)]])
  expect(await stage.lock(key)).toMatchObject({ session: one.session, token, contended: true })
  const [row] = await stage.sql('select request, token_to from $schema.locks where key = $1', [key])
  expect(row).toEqual({ request: requests[1], token_to: String(token + 2n) })
  expect(await stage.line(key)).toEqual([one.session, other.session])
  // Again, of one that had its turn, of another's, and of one that there is not: nothing.
  for (const [actor, which] of [
    [one, 1n],
    [one, 0n],
    [other, 2n],
    [one, 3n],
  ] as const)
    await actor.sql('select $schema.turn($1, $2, $3)', [actor.session, [key], [String(token + which)]])
  expect(await stage.line(key)).toEqual([one.session, other.session])
  // A late cancel of who was first takes nothing away.
  expect(await one.cancel(key, requests[0] as string)).toMatchObject([{ outcome: 'absent' }])
  expect(await one.release(key, token + 1n)).toMatchObject([
    { outcome: 'released' },
    { outcome: 'granted', request: requests[2] },
  ])
})

test('two of its tokens in one release: it is given up to the later', async () => {
  const { token } = await handedOver(one, one, other)
  const answers = await one.releaseAll([key, key], [token, token + 1n])
  expect(answers.map(({ outcome, token: which }) => [outcome, which])).toEqual([
    ['released', token + 1n],
    ['handed', null],
    ['absent', token],
  ])
})
