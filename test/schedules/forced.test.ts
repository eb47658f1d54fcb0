// A key that is taken by hand: its holder knows before the next one holds it, unless whoever took it would not wait.
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import type { Actor } from './support/actor.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
let key: string
beforeAll(async () => {
  stage = await Stage.create()
})
afterEach(async () => expect(await stage.clear()).toEqual(nothing))
afterAll(() => stage.drop())

/** A holder, one in line behind it, and an operator, who has no session. */
async function cast(): Promise<{
  holder: Actor
  waiter: Actor
  operator: Actor
  token: bigint
  request: string
}> {
  key = stage.key()
  const [holder, waiter, operator] = [
    await stage.actor('holder'),
    await stage.actor('waiter', '60s'),
    await stage.actor('operator', null),
  ]
  const { token } = await holder.acquire(key)
  const { request } = await waiter.acquire(key)
  return { holder, waiter, operator, token: token as bigint, request: request as string }
}

async function events(): Promise<Record<string, unknown>[]> {
  return await stage.sql(
    'select what, token::text, session, reason from $schema.events where key = $1 order by id',
    [key],
  )
}

describe('a key taken by hand', () => {
  test('is marked: not extended by any renewal, and given to the next by the holder’s release', async () => {
    const { holder, waiter, operator, token, request } = await cast()
    const [marked] = await operator.forceRelease(key)
    expect(marked).toMatchObject({ outcome: 'forced', token, key, request: null, channel: null })
    const due = marked?.expires_in ?? 0
    expect(due).toBeGreaterThan(0)
    expect(due).toBeLessThanOrEqual(30_000)
    // Nothing moves yet, whoever looks.
    await stage.reapDue()
    expect(await waiter.tick([key], [request])).toMatchObject([{ outcome: 'queued' }])
    expect((await (await stage.actor('newcomer')).acquire(key, { wait: false })).outcome).toBe('busy')
    expect(await stage.lock(key)).toMatchObject({ session: holder.session, token, released: false })
    // The renewal is one of the session, and says that it is none of this grant.
    const beat = await holder.heartbeat()
    expect(beat).toMatchObject({ renewed: true, held: 0n, tokens: 0n, forced: [token] })
    expect((await holder.heartbeat()).forced).toEqual([token])
    expect((await stage.session(holder))?.left ?? 0).toBeGreaterThan((await stage.forcedLeft(key)) ?? 0)
    expect((await stage.forcedLeft(key)) ?? 0).toBeLessThanOrEqual(due)
    expect(await holder.release(key, token)).toMatchObject([
      { outcome: 'released', token },
      { outcome: 'handed', key },
    ])
    expect(await stage.lock(key)).toMatchObject({ session: waiter.session })
    expect(await stage.forcedLeft(key)).toBeNull()
    expect((await waiter.heartbeat()).forced).toEqual([])
    expect(await events()).toEqual([
      { what: 'forced', token: String(token), session: holder.session, reason: 'a test' },
    ])
  })

  test('ends when the holder’s last renewal before the mark runs out, though it goes on renewing', async () => {
    const { holder, waiter, operator, request } = await cast()
    await operator.forceRelease(key)
    await stage.forcedIsDue(key)
    expect((await holder.heartbeat()).renewed).toBe(true)
    expect(await waiter.tick([key], [request])).toMatchObject([{ outcome: 'granted', request }])
    expect(await stage.lock(key)).toMatchObject({ session: waiter.session, contended: false })
    expect(await stage.session(holder)).toMatchObject({ dead: false })
  })

  test('is due for who waits at that moment, and not when its holder’s session expires', async () => {
    const { holder, waiter, operator, request } = await cast()
    await stage.sql(
      `update $schema.sessions set expires_at = clock_timestamp() + interval '7 seconds' where id = $1`,
      [holder.session],
    )
    await operator.forceRelease(key)
    await holder.heartbeat()
    const [look] = await waiter.tick([key], [request])
    expect(look?.expires_in).toBeLessThanOrEqual(7_000)
    const another = await (await stage.actor('another')).acquire(key)
    expect(another.expires_in).toBeLessThanOrEqual(7_000)
  })

  test('ends for a newcomer and for anybody’s tick, where nobody waits', async () => {
    key = stage.key()
    const [holder, operator] = [await stage.actor('holder'), await stage.actor('operator', null)]
    for (const who of ['a try', 'a tick'] as const) {
      const { token } = await holder.acquire(key)
      await operator.forceRelease(key)
      await stage.forcedIsDue(key)
      const newcomer = await stage.actor('newcomer')
      if (who === 'a try') {
        expect((await newcomer.acquire(key, { wait: false })).outcome).toBe('again')
      } else {
        await stage.reapDue()
        await newcomer.tick()
      }
      expect(await stage.lock(key)).toBeUndefined()
      expect(await holder.release(key, token)).toMatchObject([{ outcome: 'absent' }])
    }
  })

  test('is not taken by a caller whose clock is in doubt', async () => {
    const { waiter, operator, request, holder } = await cast()
    await operator.forceRelease(key)
    await stage.forcedIsDue(key)
    const seen = { serverTime: Date.now() - 60_000, elapsed: 0 }
    expect(await waiter.tick([key], [request], seen)).toMatchObject([{ outcome: 'queued' }])
    expect((await (await stage.actor('other')).acquire(key, { wait: false, seen })).outcome).toBe('busy')
    expect(await stage.lock(key)).toMatchObject({ session: holder.session })
  })

  test('has its time anew with its holder’s session, in a grace', async () => {
    const { holder, operator } = await cast()
    await operator.forceRelease(key)
    await stage.forcedIsDue(key)
    await stage.sql('update $schema.cluster set graced_at = null')
    expect(await stage.sql('select $schema.clock_stepped() as began')).toEqual([{ began: true }])
    const left = (await stage.forcedLeft(key)) ?? 0
    expect(left).toBeGreaterThan(25_000)
    expect(left).toBeLessThanOrEqual(((await stage.session(holder))?.left ?? 0) + 1_000)
  })
})

describe('a mark and a renewal at once', () => {
  test('a renewal in flight is waited for: the grant ends no sooner than it promises', async () => {
    const { holder, operator } = await cast()
    await stage.sql(
      `update $schema.sessions set expires_at = clock_timestamp() + interval '5 seconds' where id = $1`,
      [holder.session],
    )
    await holder.begin()
    expect(await holder.heartbeat()).toMatchObject({ renewed: true, forced: [] })
    const forcing = operator.forceRelease(key)
    await stage.blocked(operator, holder)
    await holder.commit()
    expect((await forcing)[0]?.expires_in).toBeGreaterThan(20_000)
  })

  test('a renewal that comes while the mark is in flight waits for it, and tells of it', async () => {
    const { holder, operator, token } = await cast()
    await operator.begin()
    await operator.forceRelease(key)
    const beat = holder.heartbeat()
    await stage.blocked(holder, operator)
    await operator.commit()
    expect(await beat).toMatchObject({ renewed: true, held: 0n, forced: [token] })
  })

  test('the mark waits for nobody else: not for a guard, not for who queues, not for an acquire of the holder’s', async () => {
    const { holder, operator, token } = await cast()
    const [guard, queuer] = [await stage.actor('guard', null), await stage.actor('queuer')]
    await guard.begin()
    await guard.guard(key, token)
    await holder.begin()
    await holder.acquire(stage.key('another'))
    expect((await operator.forceRelease(key))[0]?.outcome).toBe('forced')
    await holder.commit()
    await guard.commit()
    expect((await queuer.acquire(key)).outcome).toBe('queued')
  })
})

describe('a guard at that time', () => {
  test('keeps the key from everybody until it ends, also when the time is up; a new one is refused', async () => {
    const { holder, waiter, operator, token, request } = await cast()
    const guard = await stage.actor('guard', null)
    await guard.begin()
    await guard.guard(key, token)
    await operator.forceRelease(key)
    const another = await stage.actor('another guard', null)
    await another.begin()
    await expect(another.guard(key, token)).rejects.toMatchObject({ code: 'FP003' })
    await another.rollback()
    await stage.forcedIsDue(key)
    expect(await waiter.tick([key], [request])).toMatchObject([{ outcome: 'queued' }])
    expect(await stage.lock(key)).toMatchObject({ session: holder.session, token, released: true })
    expect((await holder.heartbeat()).forced).toEqual([token])
    await guard.sql('select $schema.pin_again($1, $2)', [key, String(token)])
    await guard.commit()
    expect(await waiter.tick([key], [request])).toMatchObject([{ outcome: 'granted' }])
  })

  test('keeps it from `now` as well', async () => {
    const { holder, waiter, operator, token, request } = await cast()
    const guard = await stage.actor('guard', null)
    await guard.begin()
    await guard.guard(key, token)
    expect(await operator.forceRelease(key, { now: true })).toMatchObject([{ outcome: 'pinned', token }])
    expect(await stage.lock(key)).toMatchObject({ session: holder.session, token, released: true })
    expect((await holder.heartbeat()).forced).toEqual([token])
    await guard.commit()
    expect(await waiter.tick([key], [request])).toMatchObject([{ outcome: 'granted' }])
  })
})

describe('now', () => {
  test('hands over at once, and the old holder’s words touch nothing', async () => {
    const { holder, waiter, operator, token } = await cast()
    expect(await operator.forceRelease(key, { now: true })).toMatchObject([
      { outcome: 'released', token },
      { outcome: 'handed', key },
    ])
    expect(await stage.lock(key)).toMatchObject({ session: waiter.session })
    // Told though the row is another's by now: so is a renewal that was on its way while the key moved on.
    expect(await holder.heartbeat()).toMatchObject({ renewed: true, held: 0n, tokens: 0n, forced: [token] })
    const settled = await holder.sql('select * from $schema.settle($1)', [holder.session])
    expect(settled).toEqual([
      { key, token: String(token), requests: null, tokens: null, last: String(token), forced: true },
    ])
    expect(await holder.release(key, token)).toMatchObject([{ outcome: 'absent' }])
    expect(await stage.lock(key)).toMatchObject({ session: waiter.session })
  })

  test('after a mark does not wait for it any longer', async () => {
    const { waiter, operator, token } = await cast()
    await operator.forceRelease(key)
    expect((await operator.forceRelease(key, { now: true }))[0]).toMatchObject({ outcome: 'released', token })
    expect(await stage.lock(key)).toMatchObject({ session: waiter.session })
  })
})

describe('two at once', () => {
  test('two marks: one after the other, one end, both written down', async () => {
    const { holder, operator, token } = await cast()
    const second = await stage.actor('second', null)
    await operator.begin()
    const [first] = await operator.forceRelease(key)
    const forcing = second.forceRelease(key)
    await stage.blocked(second, operator)
    await operator.commit()
    const [again] = await forcing
    expect(again).toMatchObject({ outcome: 'forced', token })
    expect(again?.expires_in).toBeLessThanOrEqual(first?.expires_in ?? 0)
    expect((await holder.heartbeat()).forced).toEqual([token])
    // A later one cannot put the end off, whatever was renewed meanwhile.
    expect((await operator.forceRelease(key))[0]?.expires_in).toBeLessThanOrEqual(first?.expires_in ?? 0)
    expect(await events()).toHaveLength(3)
  })

  test('two `now` take one grant each, or say that it moved on', async () => {
    const { waiter, operator, token } = await cast()
    const second = await stage.actor('second', null)
    await operator.begin()
    await operator.forceRelease(key, { now: true })
    const forcing = second.forceRelease(key, { now: true })
    await stage.blocked(second, operator)
    await operator.commit()
    expect(await forcing).toMatchObject([{ outcome: 'again' }])
    expect(await second.forceRelease(key, { now: true, token })).toMatchObject([{ outcome: 'absent' }])
    expect(await stage.lock(key)).toMatchObject({ session: waiter.session })
  })

  test('the holder’s release at the same moment: the mark falls on nobody, or comes first and changes nothing', async () => {
    const { holder, waiter, operator, token } = await cast()
    await holder.begin()
    await holder.release(key, token)
    const forcing = operator.forceRelease(key, { token })
    await stage.blocked(operator, holder)
    await holder.commit()
    expect(await forcing).toMatchObject([{ outcome: 'absent', token }])
    expect(await stage.forcedLeft(key)).toBeNull()
    expect(await stage.lock(key)).toMatchObject({ session: waiter.session, released: false })
    const { token: next } = (await stage.lock(key)) ?? {}
    await operator.begin()
    await operator.forceRelease(key)
    const releasing = waiter.release(key, next ?? null)
    await stage.blocked(waiter, operator)
    await operator.commit()
    expect(await releasing).toMatchObject([{ outcome: 'released', token: next }])
    expect(await stage.lock(key)).toBeUndefined()
  })
})

describe('what is not there', () => {
  test('a wrong token, an absent key, a key that is being handed over: nothing is changed, nothing written down', async () => {
    const { holder, operator, token } = await cast()
    for (const given of [token - 1n, token + 1n]) {
      expect(await operator.forceRelease(key, { token: given })).toMatchObject([
        { outcome: 'absent', token: given, key },
      ])
      expect(await operator.forceRelease(key, { token: given, now: true })).toMatchObject([
        { outcome: 'absent' },
      ])
    }
    expect(await operator.forceRelease(stage.key('nobody has'))).toMatchObject([{ outcome: 'absent' }])
    expect(await stage.lock(key)).toMatchObject({ session: holder.session, token, released: false })
    expect(await stage.forcedLeft(key)).toBeNull()
    expect(await events()).toEqual([])
  })

  test('a holder that has expired, or is dead, is not waited for', async () => {
    const { holder, waiter, operator } = await cast()
    await stage.expire(holder)
    expect(await operator.forceRelease(key)).toMatchObject([{ outcome: 'released' }, { outcome: 'handed' }])
    expect(await stage.lock(key)).toMatchObject({ session: waiter.session })
  })

  test('no reason, no force', async () => {
    const { operator } = await cast()
    for (const reason of ['', '  ', null]) {
      const forcing = operator.sql('select $schema.force_release($1, $2)', [key, reason])
      await expect(forcing).rejects.toMatchObject({ code: 'FP009' })
    }
    expect(await stage.forcedLeft(key)).toBeNull()
  })
})

test('the same process takes the key again afterwards, under a new token and with no mark', async () => {
  key = stage.key()
  const [holder, operator] = [await stage.actor('holder'), await stage.actor('operator', null)]
  const { token } = await holder.acquire(key)
  await operator.forceRelease(key)
  const request = randomUUID()
  expect((await holder.acquire(key, { request })).outcome).toBe('queued')
  const [released, granted] = await holder.release(key, token)
  expect(released).toMatchObject({ outcome: 'released' })
  expect(granted).toMatchObject({ outcome: 'granted', request })
  expect(granted?.token).toBeGreaterThan(token ?? 0n)
  // What it was told it may be told again, and it is about the old grant alone.
  expect(await holder.heartbeat()).toMatchObject({ held: 1n, tokens: granted?.token, forced: [token] })
  await stage.sql(`update $schema.events set at = at - interval '61 seconds' where key = $1`, [key])
  expect((await holder.heartbeat()).forced).toEqual([])
  // A late force of the old grant finds nothing.
  expect(await operator.forceRelease(key, { token })).toMatchObject([{ outcome: 'absent' }])
  expect(await stage.forcedLeft(key)).toBeNull()
})

test('the base raised by hand while an acquire is on its way: its number is above it, or its grant before it', async () => {
  const [operator, early, late] = [
    await stage.actor('operator', null),
    await stage.actor('early'),
    await stage.actor('late'),
  ]
  key = stage.key()
  await early.begin()
  const before = await early.acquire(key)
  const [raised] = await operator.sql(`select $schema.raise_base('a test')::text as base`)
  const base = BigInt(raised?.base)
  await early.commit()
  expect(before.token).toBeLessThan(base)
  expect((await early.heartbeat()).base).toBe(base)
  await early.release(key, before.token)
  expect((await late.acquire(key)).token).toBeGreaterThan(base)
  // Uncommitted, it is not counted from yet; then an insert waits in vain for the old one to be good enough.
  await operator.begin()
  const [second] = await operator.sql(`select $schema.raise_base('a test')::text as base`)
  const other = stage.key('other')
  const old = await late.acquire(other)
  expect(old.token).toBeLessThan(BigInt(second?.base))
  await operator.commit()
  await late.release(other, old.token)
  expect((await early.acquire(other)).token).toBeGreaterThan(BigInt(second?.base))
})

test('what was written down is deleted after thirty days, by the next one who writes', async () => {
  const { operator } = await cast()
  await stage.sql('delete from $schema.events')
  await stage.sql(
    `insert into $schema.events (at, what, reason)
       select clock_timestamp() - interval '31 days', 'raised', 'long ago' from generate_series(1, 1500)`,
  )
  await stage.sql(`insert into $schema.events (what, reason) values ('raised', 'just now')`)
  const old = async () =>
    (await stage.sql(`select count(*)::int as count from $schema.events where reason = 'long ago'`))[0]?.count
  await operator.forceRelease(key)
  expect(await old()).toBe(500)
  await operator.forceRelease(key)
  expect(await old()).toBe(0)
  expect(await stage.sql(`select from $schema.events where reason = 'just now'`)).toHaveLength(1)
})
