// A server whose clock was stepped reaps nobody on the word of that clock, and begins a grace once that is proved.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import type { Actor, Seen } from './support/actor.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.create()
})
beforeEach(() => stage.sql('update $schema.cluster set graced_at = null'))
afterEach(async () => expect(await stage.clear()).toEqual(nothing))
afterAll(() => stage.drop())

/** The server's time, milliseconds since 1970. */
async function serverTime(): Promise<number> {
  const [row] = await stage.sql(`select (extract(epoch from clock_timestamp()) * 1000)::float8 as time`)
  return Number(row?.time)
}

/** What a client says whose last answer came just now, had the server's clock moved by that much since. */
async function seenWith(step: number): Promise<Seen> {
  return { base: 0n, serverTime: (await serverTime()) - step, elapsed: 0 }
}

/** An expired holder of a key, and somebody who has met it. */
async function cast() {
  const key = stage.key()
  const [holder, other] = [await stage.actor('holder'), await stage.actor('other')]
  const { token } = await holder.acquire(key)
  await stage.expire(holder)
  await stage.reapDue()
  return { key, holder, other, token }
}

const alive = async (actor: Actor) => (await stage.session(actor))?.dead === false

describe.each([
  { name: 'forward by more than a second', step: 1_500, doubtful: true },
  { name: 'forward by ten minutes', step: 600_000, doubtful: true },
  { name: 'back by more than a second', step: -1_500, doubtful: true },
  { name: 'by half a second, as a slow reply', step: 500, doubtful: false },
  { name: 'not at all', step: 0, doubtful: false },
])('the clock seems to have moved $name', ({ step, doubtful }) => {
  test(`a tick ${doubtful ? 'reaps nothing' : 'reaps'}`, async () => {
    const { key, holder, other } = await cast()
    await other.tick([], [], await seenWith(step))
    expect(await alive(holder)).toBe(doubtful)
    expect((await stage.lock(key)) === undefined).toBe(!doubtful)
  })

  test(`a waiter’s tick ${doubtful ? 'does not judge' : 'judges'} the holder`, async () => {
    const { key, other, holder, token } = await cast()
    await stage.sql(
      `update $schema.sessions set expires_at = clock_timestamp() + interval '1 minute' where id = $1`,
      [holder.session],
    )
    const { request } = await other.acquire(key)
    await stage.expire(holder)
    const [answer] = await other.tick([key], [request ?? ''], await seenWith(step))
    expect(answer?.outcome).toBe(doubtful ? 'queued' : 'granted')
    if (doubtful) expect(await stage.lock(key)).toMatchObject({ session: holder.session, token })
  })

  test(`a try ${doubtful ? 'does not judge' : 'judges'} the holder`, async () => {
    const { key, other, holder } = await cast()
    const { outcome } = await other.acquire(key, { wait: false, seen: await seenWith(step) })
    expect(outcome).toBe(doubtful ? 'busy' : 'again')
    expect(await alive(holder)).toBe(doubtful)
  })

  test(`an acquire that comes late by that clock is ${doubtful ? 'granted' : 'refused'}`, async () => {
    const { holder } = await cast()
    const { outcome } = await holder.acquire(stage.key(), { wait: false, seen: await seenWith(step) })
    expect(outcome).toBe(doubtful ? 'granted' : 'dead')
  })

  test(`a heartbeat that comes late by that clock is ${doubtful ? 'renewed' : 'refused'}`, async () => {
    const { holder } = await cast()
    expect((await holder.heartbeat(await seenWith(step))).renewed).toBe(doubtful)
    expect(((await stage.session(holder))?.left ?? 0) > 0).toBe(doubtful)
  })
})

test('doubt renews nobody whose death is stored, and keeps nobody from what is nobody’s', async () => {
  const { key, holder, other } = await cast()
  await other.begin()
  await other.bury(holder.session)
  await other.commit()
  const doubt = await seenWith(600_000)
  expect((await holder.heartbeat(doubt)).renewed).toBe(false)
  const { outcome } = await other.acquire(key, { seen: doubt })
  expect(outcome).toBe('granted')
})

test('a caller who has seen nothing yet is in no doubt', async () => {
  const { holder, other } = await cast()
  await other.tick([], [], { base: 0n })
  expect(await stage.session(holder)).toBeUndefined()
})

test('time that has passed by the caller’s own clock counts', async () => {
  const { holder, other } = await cast()
  const time = await serverTime()
  await other.tick([], [], { serverTime: time - 3_600_000, elapsed: 3_600_000 })
  expect(await stage.session(holder)).toBeUndefined()
})

describe('once it is proved', () => {
  const began = async (actor: Actor) =>
    (await actor.sql('select $schema.clock_stepped() as began'))[0]?.began as boolean
  const base = async () => (await stage.sql('select base, boot from $schema.cluster'))[0]

  test('every session found is assigned its ttl, and the base stays', async () => {
    const { key, holder, other, token } = await cast()
    // Alive for an hour by a clock that has been set back since.
    await stage.sql(
      `update $schema.sessions set expires_at = clock_timestamp() + interval '1 hour' where id = $1`,
      [other.session],
    )
    const before = await base()
    expect(await began(other)).toBe(true)
    for (const actor of [holder, other]) {
      const left = (await stage.session(actor))?.left
      expect(left).toBeGreaterThan(25_000)
      expect(left).toBeLessThanOrEqual(30_000)
    }
    expect(await base()).toEqual(before)
    expect(await stage.lock(key)).toMatchObject({ session: holder.session, token })
    expect((await holder.heartbeat()).renewed).toBe(true)
  })

  test('at most once each max_ttl, also where the first one lies ahead of a clock that was set back', async () => {
    const { holder, other } = await cast()
    expect([await began(other), await began(other)]).toEqual([true, false])
    await stage.expire(holder)
    expect(await began(other)).toBe(false)
    expect((await stage.session(holder))?.left).toBeLessThan(0)
    await stage.sql(
      `update $schema.cluster set graced_at = clock_timestamp() - max_ttl - interval '1 second'`,
    )
    expect([await began(other), await began(other)]).toEqual([true, false])
    await stage.sql(`update $schema.cluster set graced_at = clock_timestamp() + interval '1 hour'`)
    expect([await began(other), await began(other)]).toEqual([true, false])
  })

  test('the dead stay dead', async () => {
    const { holder, other } = await cast()
    await other.begin()
    await other.bury(holder.session)
    await other.commit()
    expect(await began(other)).toBe(true)
    expect(await stage.session(holder)).toMatchObject({ dead: true })
    expect((await holder.heartbeat()).renewed).toBe(false)
  })
})
