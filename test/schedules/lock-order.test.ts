// Calls of ours wait for the commit of another such call and for nothing else, in one order, so that none of them
// waits in a circle.
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.create()
})
afterEach(async () => expect(await stage.clear()).toEqual(nothing))
afterAll(() => stage.drop())

/** Keys in order, held by one actor. */
async function held(count: number) {
  const keys = Array.from({ length: count }, (_, i) => stage.key(`${'abcdef'[i]}`))
  const holder = await stage.actor('holder')
  const answers = await holder.acquireAll(keys)
  const tokens = keys.map((_, i) => answers[i]?.token ?? 0n)
  return { keys, holder, tokens }
}

test('no statement of a batch goes back to inserting', async () => {
  const [taken, free] = [stage.key('a'), stage.key('b')]
  const [holder, actor] = [await stage.actor('holder'), await stage.actor('actor')]
  const { token } = await holder.acquire(taken)
  await holder.begin()
  await holder.cancel(taken, randomUUID())
  const [first, second] = [randomUUID(), randomUUID()]
  const asked = actor.acquireAll([taken, free], [first, second])
  await stage.blocked(actor, holder)
  // It has inserted `b` by now: going back to the free `a`, it might wait for one who waits for `b`.
  await holder.release(taken, token)
  await holder.commit()
  const answers = await asked
  expect(answers.find(({ request }) => request === first)?.outcome).toBe('again')
  expect(answers.find(({ request }) => request === second)?.outcome).toBe('granted')
})

test.each([
  { of: 'acquire', with: 'keys in order', reversed: false },
  { of: 'acquire', with: 'keys in disorder', reversed: true },
  { of: 'cancel', with: 'keys in order', reversed: false },
  { of: 'cancel', with: 'keys in disorder', reversed: true },
])('rows are locked in the order of their keys: $of with $with', async ({ of, reversed }) => {
  const { keys, holder, tokens } = await held(3)
  const [a, b, c] = keys as [string, string, string]
  const [first, second] = [await stage.actor('first'), await stage.actor('second')]
  await holder.begin()
  await holder.cancel(b, randomUUID())
  const asked = reversed ? [c, b, a] : [a, b, c]
  const requests = asked.map(() => randomUUID())
  const call = of === 'acquire' ? first.acquireAll(asked, requests) : first.cancel(asked, requests)
  await stage.blocked(first, holder)
  // It has locked `a` and not `c`.
  const onA = second.cancel(a, randomUUID())
  await stage.blocked(second, first)
  await holder.cancel(c, randomUUID())
  await holder.commit()
  await Promise.all([call, onA])
  expect(tokens).toHaveLength(3)
})

test('two batches over the same keys in opposite orders both come through', async () => {
  const { keys, holder, tokens } = await held(3)
  const [first, second] = [await stage.actor('first'), await stage.actor('second')]
  await first.begin()
  await first.acquireAll(keys)
  const other = second.acquireAll(keys.toReversed())
  await stage.blocked(second, first)
  const released = holder.releaseAll(keys.toReversed(), tokens.toReversed())
  await first.commit()
  await Promise.all([other, released])
  for (const key of keys) {
    expect(await stage.lock(key)).toMatchObject({ session: first.session })
    expect(await stage.line(key)).toEqual([second.session])
  }
})

test('a release that has taken something waits for nobody: what is locked is to be sent again', async () => {
  const { keys, holder, tokens } = await held(2)
  const [b, c] = keys as [string, string]
  const other = await stage.actor('other')
  await other.begin()
  await other.cancel(b, randomUUID())
  const answers = await holder.releaseAll(keys, tokens)
  expect(answers.find(({ token }) => token === tokens[0])?.outcome).toBe('again')
  expect(answers.find(({ token }) => token === tokens[1])?.outcome).toBe('released')
  // What would close the circle, had the release waited.
  await other.cancel(c, randomUUID())
  await other.commit()
  expect(await holder.release(b, tokens[0] ?? 0n)).toMatchObject([{ outcome: 'released' }])
})

test('two reapers, each granting to a ticket of the session that the other buries, do not wait', async () => {
  const [one, other] = [await stage.actor('one'), await stage.actor('other')]
  const [x, y] = [stage.key('x'), stage.key('y')]
  const [deadX, deadY] = [await stage.actor('dead x'), await stage.actor('dead y')]
  await deadX.acquire(x)
  await deadY.acquire(y)
  await deadY.acquire(x)
  await deadX.acquire(y)
  await stage.expire(deadX)
  await stage.expire(deadY)
  await one.begin()
  await one.bury(deadX.session)
  await other.begin()
  await other.bury(deadY.session)
  await one.tick([x], [randomUUID()])
  await other.tick([y], [randomUUID()])
  await one.commit()
  await other.commit()
  await stage.reapDue()
  await one.tick()
  expect([await stage.lock(x), await stage.lock(y)]).toEqual([undefined, undefined])
  expect([await stage.line(x), await stage.line(y)]).toEqual([[], []])
})

test('no call of ours waits for a guard', async () => {
  const { keys, holder, tokens } = await held(2)
  const [pinned, other] = keys as [string, string]
  const guard = await stage.actor('guard', null)
  await guard.begin()
  await guard.guard(pinned, tokens[0] ?? 0n)
  const actor = await stage.actor('actor')
  // Each of these fails by its lock_timeout where it waits.
  expect((await holder.heartbeat()).renewed).toBe(true)
  expect((await actor.acquire(pinned, { wait: false })).outcome).toBe('busy')
  const { outcome, request } = await actor.acquire(pinned)
  expect(outcome).toBe('queued')
  expect(await actor.tick([pinned], [request ?? ''])).toMatchObject([{ outcome: 'queued' }])
  expect(await actor.cancel(pinned, request ?? '')).toMatchObject([{ outcome: 'cancelled' }])
  const released = await holder.releaseAll(keys, tokens)
  expect(released.find(({ token }) => token === tokens[0])?.outcome).toBe('pinned')
  expect(released.find(({ token }) => token === tokens[1])?.outcome).toBe('released')
  expect(await stage.lock(other)).toBeUndefined()
  await stage.reapDue()
  await actor.tick()
  expect(await actor.raiseGeneration()).toBe(2)
  await actor.close()
  await holder.close()
  await guard.commit()
})

test('a row that somebody has locked FOR KEY SHARE holds up no acquire of its key', async () => {
  const { keys, holder } = await held(1)
  const user = await stage.actor('user', null)
  await user.begin()
  await user.sql('select from $schema.locks for key share')
  expect((await holder.acquire(keys[0] ?? '')).outcome).toBe('queued')
  await user.rollback()
})

test('sessions of others are never waited for: a tick passes by what somebody else holds', async () => {
  const [actor, other, dead] = [
    await stage.actor('actor'),
    await stage.actor('other'),
    await stage.actor('dead'),
  ]
  await stage.expire(dead)
  await other.begin()
  await other.sql('select from $schema.sessions where id = $1 for key share', [dead.session])
  await stage.reapDue()
  await actor.tick()
  expect(await stage.session(dead)).toMatchObject({ dead: false })
  await other.rollback()
  await stage.reapDue()
  await actor.tick()
  expect(await stage.session(dead)).toBeUndefined()
})
