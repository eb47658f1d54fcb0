// A later grant never carries a smaller token: what was drawn before the row was ours does not stand.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import { until } from '../support/until.ts'
import type { Actor } from './support/actor.ts'
import { atGate, shutGate, stopAtGateIfTold } from './support/hook.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.create()
  // Between the drawing of a row's number and the look whether its key is taken, for who says so.
  await stage.sql(`
    create function stop_at_gate() returns trigger language plpgsql as $$
    begin
      ${stopAtGateIfTold}
      return new;
    end $$`)
  await stage.sql(
    'create trigger stop before insert on $schema.locks for each row execute function stop_at_gate()',
  )
})
afterEach(async () => expect(await stage.clear()).toEqual(nothing))
afterAll(() => stage.drop())

/** Somebody whose acquire has drawn its number and stands still with it, until the gate is opened. */
async function drawn(keys: string[]) {
  const open = await shutGate(stage)
  const slow = await stage.actor('slow')
  await slow.sql(`set test.stops = 'on'`)
  const answers = slow.acquireAll(keys)
  answers.catch(() => {})
  await until(async () => (await atGate(stage)) === 1)
  return { slow, answers, open }
}

async function grantAndRelease(actor: Actor, key: string): Promise<bigint> {
  const { token } = await actor.acquire(key)
  expect(await actor.release(key, token)).toMatchObject([{ outcome: 'released' }])
  return token ?? 0n
}

test('a number that was drawn before another grant of the key is drawn again', async () => {
  const key = stage.key()
  const { slow, answers, open } = await drawn([key])
  const between = await grantAndRelease(await stage.actor('quick'), key)
  await open()
  const [granted] = await answers
  expect(granted?.outcome).toBe('granted')
  expect(granted?.token).toBeGreaterThan(between)
  expect(await stage.lock(key)).toMatchObject({ session: slow.session, token: granted?.token })
})

test('in a batch, all numbers are drawn again when one may be stale', async () => {
  const keys = [stage.key('a'), stage.key('b'), stage.key('c')]
  const { answers, open } = await drawn(keys)
  const quick = await stage.actor('quick')
  const between: bigint[] = []
  for (const key of keys) between.push(await grantAndRelease(quick, key))
  await open()
  const granted = await answers
  expect(granted.map(answer => answer.outcome)).toEqual(['granted', 'granted', 'granted'])
  for (const answer of granted) {
    for (const token of between) expect(answer.token).toBeGreaterThan(token)
    expect((await stage.lock(keys[granted.indexOf(answer)] ?? ''))?.token).toBe(answer.token)
  }
})

test('numbers drawn for other keys meanwhile do no harm, and each row carries the one that was answered', async () => {
  const key = stage.key()
  const { answers, open } = await drawn([key])
  const quick = await stage.actor('quick')
  const tokens: bigint[] = []
  for (let i = 0; i < 3; i++) tokens.push((await quick.acquire(stage.key())).token ?? 0n)
  await open()
  const [granted] = await answers
  expect((await stage.lock(key))?.token).toBe(granted?.token)
  expect(tokens).not.toContain(granted?.token)
})

test('a base that was read before another grant under a higher one is read again', async () => {
  const key = stage.key()
  const [slow, other] = [await stage.actor('slow'), await stage.actor('other', null)]
  await other.begin()
  await other.sql('select from $schema.sessions where id = $1 for update', [slow.session])
  const asked = slow.acquire(key)
  await stage.blocked(slow, other)
  // What an operator does, or a new incarnation; then a grant under it.
  await stage.sql('update $schema.cluster set base = base + (1::bigint << 32)')
  const between = await grantAndRelease(await stage.actor('quick'), key)
  await other.rollback()
  const { outcome, token } = await asked
  expect(outcome).toBe('granted')
  expect(token).toBeGreaterThan(between)
  expect((await stage.lock(key))?.token).toBe(token)
})

test('a base that was raised while the number was drawn counts, though nobody drew another', async () => {
  const key = stage.key()
  const { answers, open } = await drawn([key])
  await stage.sql('update $schema.cluster set base = base + (1::bigint << 32)')
  const [row] = await stage.sql('select base from $schema.cluster')
  await open()
  const [granted] = await answers
  expect(granted?.token).toBeGreaterThan(BigInt(row?.base ?? 0))
})

test('where nobody drew in between, the numbers of the insert stand', async () => {
  const actor = await stage.actor('alone')
  const [before] = await stage.sql('select last_value from $schema.fencing')
  const answers = await actor.acquireAll([stage.key(), stage.key()])
  const [after] = await stage.sql('select last_value from $schema.fencing')
  expect(answers.map(answer => answer.outcome)).toEqual(['granted', 'granted'])
  expect(Number(after?.last_value) - Number(before?.last_value)).toBe(2)
})

test('a hand-over draws its number under the row', async () => {
  const key = stage.key()
  const [first, second] = [await stage.actor('first'), await stage.actor('second')]
  const { token } = await first.acquire(key)
  expect((await second.acquire(key)).outcome).toBe('queued')
  const elsewhere = (await second.acquire(stage.key())).token ?? 0n
  await first.release(key, token)
  const held = await stage.lock(key)
  expect(held?.session).toBe(second.session)
  expect(held?.token).toBeGreaterThan(elsewhere)
})
