// Permits that a process passes on to its own next in line, and what it tells the database of that.
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import type { Actor, Answer } from './support/actor.ts'
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
  const cast = await Promise.all(['one', 'other'].map(name => stage.actor(name)))
  ;[one, other] = cast as [Actor, Actor]
})
afterEach(async () => expect(await stage.clear()).toEqual(nothing))
afterAll(() => stage.drop())

async function takes(
  actor: Actor,
  { permits = 1, capacity = 1, context }: { permits?: number; capacity?: number; context?: string } = {},
): Promise<{ request: string; answer: Answer }> {
  const request = randomUUID()
  const terms = { mode: 'permits' as const, permits, capacity, ...(context && { context }) }
  return { request, answer: await actor.acquire(key, { request, terms: [terms] }) }
}

/** Who has permits by the record: by their tokens, whose request it is. */
async function holders(): Promise<[bigint, string][]> {
  const rows = await stage.sql(
    'select token, request from $schema.holders where key = $1 and not released order by token',
    [key],
  )
  return rows.map(row => [BigInt(row.token), row.request])
}

/** The requests in line, and whether permits may be passed on to them. */
async function line(): Promise<[string, boolean][]> {
  const rows = await stage.sql(
    'select request, coalesce(follows, false) as follows from $schema.waiters where key = $1 order by ticket',
    [key],
  )
  return rows.map(row => [row.request, row.follows])
}

describe('who may be passed permits', () => {
  test('are those at the head of the line whose session has as many as they want', async () => {
    await takes(one, { permits: 2, capacity: 2 })
    const next = await takes(one, { permits: 2, capacity: 2 })
    const fewer = await takes(one, { permits: 1, capacity: 2 })
    const last = await takes(one, { permits: 2, capacity: 2 })
    expect(await line()).toEqual([
      [next.request, true],
      [fewer.request, false],
      [last.request, false],
    ])
  })

  test('nobody behind somebody of another session, and nobody inside of a section', async () => {
    await takes(one)
    const inside = await takes(one, { context: randomUUID() })
    expect(await line()).toEqual([[inside.request, false]])
    await one.cancel(key, inside.request)
    const theirs = await takes(other)
    const behind = await takes(one)
    expect(await line()).toEqual([
      [theirs.request, false],
      [behind.request, false],
    ])
    await other.cancel(key, theirs.request)
    expect(await line()).toEqual([[behind.request, true]])
  })
})

describe('a turn that is told', () => {
  test('is what people see: the holder is who has them, under the same token, and he is in line no more', async () => {
    const { answer } = await takes(one)
    const next = await takes(one)
    const theirs = await takes(other)
    await one.turn(key, answer.token, next.request)
    expect(await holders()).toEqual([[answer.token, next.request]])
    expect(await line()).toEqual([[theirs.request, false]])
    expect(await one.tick([key], [next.request])).toMatchObject([
      { outcome: 'granted', request: next.request, token: answer.token },
    ])
    // As any holder: it gives them up by its request as well.
    expect(await one.cancel(key, next.request)).toMatchObject([
      { outcome: 'released', token: answer.token },
      { outcome: 'handed' },
    ])
    expect((await holders()).map(([, request]) => request)).toEqual([theirs.request])
  })

  test('said again, of another session’s, of another token, of who is not in line: changes nothing', async () => {
    const { answer } = await takes(one)
    const next = await takes(one)
    const theirs = await takes(other)
    const before = [await holders(), await line()]
    await other.turn(key, answer.token, next.request)
    await other.turn(key, answer.token, theirs.request)
    await one.turn(key, answer.token, theirs.request)
    await one.turn(key, (answer.token as bigint) + 1n, next.request)
    await one.turn(key, answer.token, randomUUID())
    await one.turn(stage.key(), answer.token, next.request)
    expect([await holders(), await line()]).toEqual(before)
    await one.turn(key, answer.token, next.request)
    await one.turn(key, answer.token, next.request)
    expect(await holders()).toEqual([[answer.token, next.request]])
    expect(await line()).toEqual([[theirs.request, false]])
  })

  test('makes room for nobody by itself; who fits behind it is served at its next look', async () => {
    const first = await takes(one, { permits: 2, capacity: 3 })
    const next = await takes(one, { permits: 2, capacity: 3 })
    const light = await takes(other, { permits: 1, capacity: 3 })
    // Nobody is passed.
    expect(light.answer.outcome).toBe('queued')
    expect(await other.tick([key], [light.request])).toMatchObject([{ outcome: 'queued' }])
    await one.turn(key, first.answer.token, next.request)
    expect(await other.tick([key], [light.request])).toMatchObject([{ outcome: 'granted' }])
    expect((await holders()).map(([, request]) => request)).toEqual([next.request, light.request])
  })

  test('after they went back: nobody has them, and nothing of it is in line', async () => {
    const { answer } = await takes(one)
    const next = await takes(one)
    expect(await one.releasePassed(key, answer.token, [next.request])).toMatchObject([
      { outcome: 'released' },
    ])
    await one.turn(key, answer.token, next.request)
    expect([await holders(), await line()]).toEqual([[], []])
  })

  test('while they go back: it waits for that, and says nothing of who is next by then', async () => {
    const { answer } = await takes(one)
    const next = await takes(one)
    const theirs = await takes(other)
    const late = await stage.actor('late', null)
    await one.begin()
    await one.releasePassed(key, answer.token, [next.request])
    const told = late.sql('select $schema.turn($1, $2, $3, requests => $4)', [
      one.session,
      [key],
      [String(answer.token)],
      [next.request],
    ])
    await stage.blocked(late, one)
    await one.commit()
    await told
    expect((await holders()).map(([, request]) => request)).toEqual([theirs.request])
    expect(await line()).toEqual([])
  })

  test('to whom the database has granted others meanwhile: he has those, and the first ones keep their name', async () => {
    const first = await takes(one, { capacity: 2 })
    const { answer } = await takes(other, { capacity: 2 })
    const next = await takes(one, { capacity: 2 })
    await other.begin()
    await other.release(key, answer.token)
    const told = one.turn(key, first.answer.token, next.request)
    await stage.blocked(one, other)
    await other.commit()
    await told
    const rows = await holders()
    expect(rows.map(([, request]) => request)).toEqual([first.request, next.request])
    // Its process looks, and gives back what is one too many.
    const [granted] = await one.tick([key], [next.request])
    expect(granted).toMatchObject({ outcome: 'granted', token: rows[1]?.[0] })
    await one.release(key, granted?.token ?? null)
    expect(await holders()).toEqual([[first.answer.token, first.request]])
  })

  test('does not wait for a transaction that pins them, and the pin goes on to hold', async () => {
    const { answer } = await takes(one)
    const next = await takes(one)
    const theirs = await takes(other)
    const guarding = await stage.actor('guarding', null)
    await guarding.begin()
    await guarding.guard(key, answer.token)
    await one.turn(key, answer.token, next.request)
    expect(await holders()).toEqual([[answer.token, next.request]])
    expect(await one.release(key, answer.token)).toMatchObject([{ outcome: 'pinned' }])
    expect(await line()).toEqual([[theirs.request, false]])
    await guarding.commit()
    expect(await other.tick([key], [theirs.request])).toMatchObject([{ outcome: 'granted' }])
  })

  test('of who was first nothing is left to be given up', async () => {
    const { request, answer } = await takes(one)
    const next = await takes(one)
    await one.turn(key, answer.token, next.request)
    expect(await one.cancel(key, request)).toMatchObject([{ outcome: 'absent' }])
    expect(await holders()).toEqual([[answer.token, next.request]])
  })

  // Regression: the row went on naming the section that the one before was in, which so seemed to wait for who had them next.
  test('of the section that the one before was in they are no more: who has them next closes no circle with it', async () => {
    const [section, asked] = [randomUUID(), randomUUID()]
    const held = stage.key('held')
    await one.acquireAll([held], [section])
    const { answer } = await takes(one, { context: section })
    const next = await takes(one)
    await one.turn(key, answer.token, next.request)
    // Inside of what it has them for, it asks for what the section holds.
    await one.acquireAll([held], [asked], null, { terms: [{ context: next.request }] })
    const waits = await stage.sql('select waiter, blocker from $schema.waits_for($1, $2)', [
      one.session,
      asked,
    ])
    expect(waits.map(({ waiter, blocker }) => [Number(waiter), Number(blocker)])).toEqual([[0, 1]])
  })
})

describe('permits that were passed on go back', () => {
  test('to who is next behind those who have had some, not to these', async () => {
    const { answer } = await takes(one)
    const had = [await takes(one), await takes(one)].map(({ request }) => request)
    const theirs = await takes(other)
    const answers = await one.releasePassed(key, answer.token, had)
    expect(answers.map(({ outcome }) => outcome)).toEqual(['released', 'handed'])
    expect((await holders()).map(([, request]) => request)).toEqual([theirs.request])
    expect(await line()).toEqual([])
    expect(await one.releasePassed(key, answer.token, had)).toMatchObject([{ outcome: 'absent' }])
  })

  test('naming somebody of another session: he stays in line', async () => {
    const { answer } = await takes(one)
    const theirs = await takes(other)
    const mine = await takes(one)
    await one.releasePassed(key, answer.token, [theirs.request])
    expect((await holders()).map(([, request]) => request)).toEqual([theirs.request])
    expect((await line()).map(([request]) => request)).toEqual([mine.request])
  })
})
