// No grant that nobody knows of: cancel against hand-over, and acquires that come late.
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import { until } from '../support/until.ts'
import { atGate, hook, shutGate, stopAtGate } from './support/hook.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.create()
})
afterEach(async () => expect(await stage.clear()).toEqual(nothing))
afterAll(() => stage.drop())

/** Somebody who holds a key, and somebody in line for it. */
async function cast() {
  const key = stage.key()
  const [holder, waiter] = [await stage.actor('holder'), await stage.actor('waiter')]
  const token = (await holder.acquire(key)).token ?? 0n
  const request = randomUUID()
  await waiter.acquire(key, { request })
  return { key, holder, waiter, token, request }
}

test('a cancel that waits for a hand-over to its ticket releases what that granted', async () => {
  const { key, holder, waiter, token, request } = await cast()
  await holder.begin()
  expect((await holder.release(key, token)).at(-1)).toMatchObject({ outcome: 'handed' })
  const cancelled = waiter.cancel(key, request)
  await stage.blocked(waiter, holder)
  await holder.commit()
  expect(await cancelled).toMatchObject([{ request, outcome: 'released' }])
  expect(await stage.lock(key)).toBeUndefined()
})

test('the same, and the next in line has it', async () => {
  const { key, holder, waiter, token, request } = await cast()
  const next = await stage.actor('next')
  await next.acquire(key)
  await holder.begin()
  await holder.release(key, token)
  const cancelled = waiter.cancel(key, request)
  await stage.blocked(waiter, holder)
  await holder.commit()
  expect(await cancelled).toMatchObject([
    { request, outcome: 'released' },
    { outcome: 'handed', key },
  ])
  expect(await stage.lock(key)).toMatchObject({ session: next.session })
})

test('a cancel that waits for a hand-over that is rolled back takes the ticket away', async () => {
  const { key, holder, waiter, token, request } = await cast()
  await holder.begin()
  await holder.release(key, token)
  const cancelled = waiter.cancel(key, request)
  await stage.blocked(waiter, holder)
  await holder.rollback()
  expect(await cancelled).toMatchObject([{ request, outcome: 'cancelled' }])
  expect(await stage.line(key)).toEqual([])
  expect(await stage.lock(key)).toMatchObject({ session: holder.session, token })
})

test('a hand-over that waits for a cancel of the head finds no ticket, and nobody is granted it', async () => {
  const { key, holder, waiter, token, request } = await cast()
  await waiter.begin()
  expect(await waiter.cancel(key, request)).toMatchObject([{ request, outcome: 'cancelled' }])
  const released = holder.release(key, token)
  await stage.blocked(holder, waiter)
  await waiter.commit()
  expect(await released).toMatchObject([{ outcome: 'released', token }])
  expect(await stage.lock(key)).toBeUndefined()
})

test('a hand-over that waits for a cancel of the head grants to the next', async () => {
  const { key, holder, waiter, token, request } = await cast()
  const next = await stage.actor('next')
  await next.acquire(key)
  await waiter.begin()
  await waiter.cancel(key, request)
  const released = holder.release(key, token)
  await stage.blocked(holder, waiter)
  await waiter.commit()
  expect(await released).toMatchObject([{ outcome: 'released' }, { outcome: 'handed' }])
  expect(await stage.lock(key)).toMatchObject({ session: next.session })
  expect(await stage.line(key)).toEqual([])
})

test('a ticket that goes while the hand-over has read it as the head is not granted to', async () => {
  const { key, holder, waiter, token, request } = await cast()
  const next = await stage.actor('next')
  await next.acquire(key)
  // Without the row's lock, as whoever clears away a dead session's tickets.
  await waiter.begin()
  await waiter.sql('delete from $schema.waiters where request = $1', [request])
  const released = holder.release(key, token)
  await stage.blocked(holder, waiter)
  await waiter.commit()
  expect(await released).toMatchObject([{ outcome: 'released' }, { outcome: 'handed' }])
  expect(await stage.lock(key)).toMatchObject({ session: next.session })
})

test('a cancel of what was granted meanwhile gives it back, of what was not asked for does nothing', async () => {
  const { key, holder, waiter, token, request } = await cast()
  await holder.release(key, token)
  expect(await holder.cancel(key, request)).toMatchObject([{ request, outcome: 'absent' }])
  expect(await stage.lock(key)).toMatchObject({ session: waiter.session })
  expect(await waiter.cancel(key, request)).toMatchObject([{ request, outcome: 'released' }])
  expect(await waiter.cancel(key, request)).toMatchObject([{ request, outcome: 'absent' }])
  expect(await stage.lock(key)).toBeUndefined()
})

test('an acquire that runs late, under a generation that was raised, takes nothing', async () => {
  const key = stage.key()
  const takeAway = await hook(stage, 'acquire', {
    before: `if acquire.generation = 1 then ${stopAtGate} end if;`,
  })
  const open = await shutGate(stage)
  const [actor, line] = [await stage.actor('actor'), await stage.actor('its other connection', null)]
  const request = randomUUID()
  const late = actor.acquire(key, { request })
  await until(async () => (await atGate(stage)) === 1)
  // It holds nothing yet, so that this does not wait for it.
  const raise = 'select $schema.raise_generation($1, 1) as generation'
  expect(await line.sql(raise, [actor.session])).toMatchObject([{ generation: '2' }])
  const cancel = 'select outcome from $schema.cancel($1, $2, $3)'
  expect(await line.sql(cancel, [actor.session, [key], [request]])).toEqual([{ outcome: 'absent' }])
  await open()
  expect((await late).outcome).toBe('dead')
  await takeAway()
  expect(await stage.lock(key)).toBeUndefined()
  expect((await actor.acquire(key, { request, generation: 2 })).outcome).toBe('granted')
})

test('raising the generation waits for the acquire that still runs, and a cancel afterwards finds its grant', async () => {
  const key = stage.key()
  const [actor, line] = [await stage.actor('actor'), await stage.actor('its other connection', null)]
  await actor.begin()
  const { request } = await actor.acquire(key)
  const raised = line.sql('select $schema.raise_generation($1, 1) as generation', [actor.session])
  await stage.blocked(line, actor)
  await actor.commit()
  expect(await raised).toMatchObject([{ generation: '2' }])
  expect(await actor.cancel(key, request ?? '')).toMatchObject([{ outcome: 'released' }])
  expect(await stage.lock(key)).toBeUndefined()
})

test('raising the generation twice from the same one is harmless, from another is refused', async () => {
  const actor = await stage.actor('actor')
  expect(await actor.raiseGeneration(1)).toBe(2)
  expect(await actor.raiseGeneration(1)).toBe(2)
  expect(await actor.raiseGeneration(3)).toBeNull()
  expect((await stage.session(actor))?.generation).toBe(2)
  await actor.close()
  expect(await actor.raiseGeneration(2)).toBeNull()
})

test('a release, a cancel and a guard compare pairwise: swapped tokens and wrong owners change nothing', async () => {
  const [a, b] = [stage.key('a'), stage.key('b')]
  const [holder, other] = [await stage.actor('holder'), await stage.actor('other')]
  const tokens = [(await holder.acquire(a)).token, (await holder.acquire(b)).token]
  const swapped = await holder.releaseAll([a, b], tokens.toReversed())
  expect(swapped.map(answer => answer.outcome)).toEqual(['absent', 'absent'])
  const wrongOwner = await other.releaseAll([a, b], tokens)
  expect(wrongOwner.map(answer => answer.outcome)).toEqual(['absent', 'absent'])
  expect([(await stage.lock(a))?.token, (await stage.lock(b))?.token]).toEqual(tokens)
})
