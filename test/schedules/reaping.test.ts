// Who is dead is decided under the session's row, stored once, and no grant or ticket is written past that.
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import { until } from '../support/until.ts'
import type { Actor, Answer } from './support/actor.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.create()
})
afterEach(async () => expect(await stage.clear()).toEqual(nothing))
afterAll(() => stage.drop())

/** A tick that looks after everybody. */
async function reap(actor?: Actor): Promise<Answer[]> {
  const reaper = actor ?? (await stage.actor('reaper'))
  await stage.reapDue()
  return await reaper.tick()
}

test('a grant in flight keeps its session from being buried: no orphan', async () => {
  const key = stage.key()
  const holder = await stage.actor('holder')
  await holder.begin()
  expect((await holder.acquire(key)).outcome).toBe('granted')
  await stage.expire(holder)
  await reap()
  expect(await stage.session(holder)).toMatchObject({ dead: false })
  await holder.commit()
  expect(await stage.lock(key)).toMatchObject({ session: holder.session })
  await reap()
  expect(await stage.lock(key)).toBeUndefined()
  expect(await stage.session(holder)).toBeUndefined()
})

test('a ticket in flight keeps its session from being buried', async () => {
  const key = stage.key()
  const [holder, waiter] = [await stage.actor('holder'), await stage.actor('waiter')]
  const { token } = await holder.acquire(key)
  await waiter.begin()
  expect((await waiter.acquire(key)).outcome).toBe('queued')
  await stage.expire(waiter)
  await reap()
  expect(await stage.session(waiter)).toMatchObject({ dead: false })
  await waiter.commit()
  await reap()
  expect(await stage.line(key)).toEqual([])
  await holder.release(key, token)
  expect(await stage.lock(key)).toBeUndefined()
})

test('an acquire that comes while its session is being buried takes nothing', async () => {
  const key = stage.key()
  const [holder, reaper] = [await stage.actor('holder'), await stage.actor('reaper')]
  await stage.expire(holder)
  await reaper.begin()
  await reap(reaper)
  expect((await holder.acquire(key)).outcome).toBe('dead')
  await reaper.commit()
  expect((await holder.acquire(key)).outcome).toBe('dead')
  expect((await holder.heartbeat()).renewed).toBe(false)
  expect(await stage.lock(key)).toBeUndefined()
})

test('an acquire whose session is being closed takes nothing, and one that came before is given back', async () => {
  const [early, late] = [stage.key('early'), stage.key('late')]
  const [holder, closer] = [await stage.actor('holder'), await stage.actor('closer', null)]
  await holder.begin()
  await holder.acquire(early)
  const closing = closer.sql('select * from $schema.close_session($1)', [holder.session])
  await stage.blocked(closer, holder)
  await holder.commit()
  await closing
  expect(await stage.lock(early)).toBeUndefined()
  expect((await holder.acquire(late)).outcome).toBe('dead')
  expect(await stage.lock(late)).toBeUndefined()
})

test('an acquire that meets a close in flight waits for it', async () => {
  const key = stage.key()
  const [holder, closer] = [await stage.actor('holder'), await stage.actor('closer', null)]
  await closer.begin()
  await closer.sql('select * from $schema.close_session($1)', [holder.session])
  const asked = holder.acquire(key)
  await stage.blocked(holder, closer)
  await closer.commit()
  expect((await asked).outcome).toBe('dead')
  expect(await stage.lock(key)).toBeUndefined()
})

test('one believer: while a renewal is in flight nobody finds the session dead', async () => {
  const key = stage.key()
  const [holder, waiter] = [await stage.actor('holder'), await stage.actor('waiter')]
  const { token } = await holder.acquire(key)
  const soon = `update $schema.sessions set expires_at = clock_timestamp() + interval '1.5 seconds' where id = $1`
  await holder.sql(soon, [holder.session])
  await holder.begin()
  expect((await holder.heartbeat()).renewed).toBe(true)
  // The row that everybody else still sees.
  await until(async () => ((await stage.session(holder))?.left ?? 0) < 0)
  const { outcome, request } = await waiter.acquire(key)
  expect(outcome).toBe('queued')
  expect((await waiter.acquire(key, { wait: false })).outcome).toBe('busy')
  await reap(waiter)
  await holder.commit()
  expect(await waiter.tick([key], [request ?? ''])).toMatchObject([{ outcome: 'queued' }])
  expect(await stage.lock(key)).toMatchObject({ session: holder.session, token })
  expect(await stage.session(holder)).toMatchObject({ dead: false })
})

test('a renewal that comes after the burial is refused, though it waited for it', async () => {
  const key = stage.key()
  const [holder, reaper] = [await stage.actor('holder'), await stage.actor('reaper')]
  await holder.acquire(key)
  await reaper.begin()
  await reaper.sql(`select from $schema.sessions where id = $1 for update`, [holder.session])
  const beat = holder.heartbeat()
  await stage.blocked(holder, reaper)
  await reaper.sql(`update $schema.sessions set expires_at = 'epoch' where id = $1`, [holder.session])
  await reaper.bury(holder.session)
  await reaper.commit()
  expect((await beat).renewed).toBe(false)
})

test('nobody in line is passed over because his session is locked just now', async () => {
  const key = stage.key()
  const [holder, first, second] = [
    await stage.actor('holder'),
    await stage.actor('first'),
    await stage.actor('second'),
  ]
  const { token } = await holder.acquire(key)
  const { request } = await first.acquire(key)
  await second.acquire(key)
  await first.begin()
  await first.raiseGeneration()
  expect(await holder.release(key, token)).toMatchObject([{ outcome: 'released', token }])
  expect(await stage.lock(key)).toMatchObject({ session: null, released: true, contended: true })
  // Who comes meanwhile does not get it either.
  const newcomer = await stage.actor('newcomer')
  expect((await newcomer.acquire(key, { wait: false })).outcome).toBe('busy')
  await first.commit()
  expect(await first.tick([key], [request ?? ''])).toMatchObject([{ outcome: 'granted', request }])
  expect(await stage.lock(key)).toMatchObject({ session: first.session, contended: true })
  expect(await stage.line(key)).toEqual([second.session])
})

test('one in line who is being buried is dropped once that is stored, and the next one is served', async () => {
  const key = stage.key()
  const [holder, first, second, reaper] = [
    await stage.actor('holder'),
    await stage.actor('first'),
    await stage.actor('second'),
    await stage.actor('reaper'),
  ]
  const { token } = await holder.acquire(key)
  await first.acquire(key)
  const { request } = await second.acquire(key)
  await stage.expire(first)
  await reaper.begin()
  await reaper.bury(first.session)
  await holder.release(key, token)
  expect(await stage.lock(key)).toMatchObject({ session: null, released: true })
  await reaper.commit()
  expect(await second.tick([key], [request ?? ''])).toMatchObject([{ outcome: 'granted', request }])
  expect(await stage.lock(key)).toMatchObject({ session: second.session })
  expect(await stage.line(key)).toEqual([])
})

test('one in line whose session is gone is dropped', async () => {
  const key = stage.key()
  const [holder, first, second] = [
    await stage.actor('holder'),
    await stage.actor('first'),
    await stage.actor('second'),
  ]
  const { token } = await holder.acquire(key)
  await first.acquire(key)
  await second.acquire(key)
  await stage.sql('delete from $schema.sessions where id = $1', [first.session])
  expect(await holder.release(key, token)).toMatchObject([
    { outcome: 'released' },
    { outcome: 'handed', key },
  ])
  expect(await stage.lock(key)).toMatchObject({ session: second.session })
})

test('one in line who has expired by the clock alone is served: death is stored, never inferred', async () => {
  const key = stage.key()
  const [holder, first] = [await stage.actor('holder'), await stage.actor('first')]
  const { token } = await holder.acquire(key)
  await first.acquire(key)
  await stage.expire(first)
  await holder.release(key, token)
  expect(await stage.lock(key)).toMatchObject({ session: first.session })
  await reap()
  expect(await stage.lock(key)).toBeUndefined()
})

test('a try that meets a dead holder buries it in the same call', async () => {
  const key = stage.key()
  const [holder, other] = [await stage.actor('holder'), await stage.actor('other')]
  await holder.acquire(key)
  await stage.expire(holder)
  const request = randomUUID()
  expect((await other.acquire(key, { request, wait: false })).outcome).toBe('again')
  expect(await stage.session(holder)).toMatchObject({ dead: true, generation: 2 })
  expect((await other.acquire(key, { request, wait: false })).outcome).toBe('granted')
})

test('a waiter buries the holder that it waits for, whoever looks after all', async () => {
  const key = stage.key()
  const [holder, waiter, other] = [
    await stage.actor('holder'),
    await stage.actor('waiter'),
    await stage.actor('other'),
  ]
  await holder.acquire(key)
  const { request } = await waiter.acquire(key)
  await stage.expire(holder)
  await other.begin()
  await other.sql('select from $schema.reaper for update')
  expect(await waiter.tick([key], [request ?? ''])).toMatchObject([{ outcome: 'granted', request }])
  await other.rollback()
})

test('a grant whose session is gone is nobody’s, and the next call that meets it says so', async () => {
  for (const wait of [true, false]) {
    const key = stage.key()
    const [holder, other] = [await stage.actor('holder'), await stage.actor('other')]
    await holder.acquire(key)
    await stage.sql('delete from $schema.sessions where id = $1', [holder.session])
    const request = randomUUID()
    expect((await other.acquire(key, { request, wait })).outcome).toBe(wait ? 'granted' : 'again')
    if (!wait) expect((await other.acquire(key, { request, wait })).outcome).toBe('granted')
  }
})

test('a dead session keeps its row while a guard pins what it held', async () => {
  const key = stage.key()
  const [holder, guard] = [await stage.actor('holder'), await stage.actor('guard', null)]
  const { token } = await holder.acquire(key)
  await guard.begin()
  await guard.guard(key, token)
  await stage.expire(holder)
  const reaper = await stage.actor('reaper')
  await reap(reaper)
  expect(await stage.session(holder)).toMatchObject({ dead: true })
  expect(await stage.lock(key)).toMatchObject({ session: holder.session, released: true })
  await guard.commit()
  await reap(reaper)
  expect(await stage.lock(key)).toBeUndefined()
  await reap(reaper)
  expect(await stage.session(holder)).toBeUndefined()
})

test('all sessions are looked over at most once a second, by one caller', async () => {
  const [one, other, dead] = [await stage.actor('one'), await stage.actor('other'), await stage.actor('dead')]
  await stage.expire(dead)
  const isDead = async () => (await stage.session(dead))?.dead ?? true
  await one.begin()
  await one.sql('update $schema.reaper set looked_at = clock_timestamp()')
  await one.tick()
  await one.commit()
  expect(await isDead()).toBe(false)
  await stage.reapDue()
  await one.begin()
  await one.sql('select from $schema.reaper for update')
  await other.tick()
  expect(await isDead()).toBe(false)
  await one.rollback()
  await other.tick()
  expect(await isDead()).toBe(true)
})
