// What the first call of a new incarnation does, told by records that were forged: the base rises, every session found
// is given its time anew, and nobody is reaped. incarnation-server.test.ts does it with servers that really crash.
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import type { Actor } from './support/actor.ts'
import { type Incarnation, incarnation, step } from './support/incarnation.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.create()
})
afterEach(async () => expect(await stage.clear()).toEqual(nothing))
afterAll(() => stage.drop())

const request = '99999999-9999-4999-8999-999999999999'
const crash = () => stage.sql('delete from $schema.canary')
const ago = (actor: Actor, interval: string) =>
  stage.sql(`update $schema.sessions set expires_at = clock_timestamp() - $2::interval where id = $1`, [
    actor.session,
    interval,
  ])

function expectNew(before: Incarnation, after: Incarnation): void {
  expect(after.boot).not.toBe(before.boot)
  expect(after.canary).toBe(after.boot)
  expect(after.base).toBeGreaterThanOrEqual(before.base + step)
}

describe('is told by', () => {
  test.each([
    ['an empty canary', 'delete from $schema.canary'],
    ['another canary', 'update $schema.canary set boot = gen_random_uuid()'],
    [
      'another start of the server',
      `update $schema.cluster set started_at = started_at - interval '1 microsecond'`,
    ],
    ['a timeline that rose', 'update $schema.cluster set timeline = timeline - 1'],
    ['a timeline that fell', 'update $schema.cluster set timeline = timeline + 1'],
    ['another oid of the database', 'update $schema.cluster set database_oid = 1'],
    ['another oid of the table', 'update $schema.cluster set cluster_oid = 1'],
  ])('%s', async (_, change) => {
    const actor = await stage.actor('actor')
    const before = await incarnation(stage)
    await stage.sql(change)
    const { boot, base } = await actor.heartbeat()
    const after = await incarnation(stage)
    expectNew(before, after)
    expect([boot, base]).toEqual([after.boot, after.base])
    await actor.heartbeat()
    expect(await incarnation(stage)).toEqual(after)
  })

  test('nothing, while nothing has changed', async () => {
    const before = await incarnation(stage)
    const actor = await stage.actor('actor')
    await actor.heartbeat({ base: before.base })
    expect(await incarnation(stage)).toEqual(before)
  })
})

/** Who calls has expired an hour ago by the row, as has the other; only the incarnation can save them. */
const firsts: Record<string, (actor: Actor, key: string, token: bigint) => Promise<unknown>> = {
  open_session: async actor => await actor.open(),
  heartbeat: async actor => expect((await actor.heartbeat()).renewed).toBe(true),
  'acquire, granted': async actor => expect((await actor.acquire(stage.key())).outcome).toBe('granted'),
  'acquire, queued': async (actor, key) => expect((await actor.acquire(key)).outcome).toBe('queued'),
  'acquire, a try': async (actor, key) =>
    expect((await actor.acquire(key, { wait: false })).outcome).toBe('busy'),
  cancel: async (actor, key) => expect((await actor.cancel(key, request))[0]?.outcome).toBe('absent'),
  tick: async (actor, key) =>
    expect((await actor.tick([key], [request])).map(answer => answer.outcome)).toEqual(['again']),
  raise_generation: async actor => expect(await actor.raiseGeneration()).toBe(2),
  settle: async actor =>
    expect(await actor.sql('select * from $schema.settle($1)', [actor.session])).toHaveLength(1),
}
test.each(Object.keys(firsts))(
  'as the first call, %s raises the base, gives time and reaps nobody',
  async name => {
    const key = stage.key()
    const [actor, other] = [await stage.actor('actor'), await stage.actor('other')]
    const own = stage.key('own')
    await actor.acquire(own)
    const token = (await other.acquire(key)).token ?? 0n
    await ago(actor, '1 hour')
    await ago(other, '1 hour')
    await stage.reapDue()
    await crash()
    const before = await incarnation(stage)
    await firsts[name]?.(actor, key, token)
    expectNew(before, await incarnation(stage))
    expect(await stage.lock(key)).toMatchObject({ session: other.session, token })
    expect(await stage.lock(own)).toMatchObject({ session: actor.session })
    for (const each of [actor, other]) expect((await stage.session(each))?.left).toBeGreaterThan(20_000)
  },
)

test('a release that hands over, as the first call, draws its token from the new base', async () => {
  const key = stage.key()
  const [holder, next] = [await stage.actor('holder'), await stage.actor('next')]
  const { token } = await holder.acquire(key)
  await next.acquire(key)
  const before = await incarnation(stage)
  await crash()
  await holder.release(key, token)
  const after = await incarnation(stage)
  expectNew(before, after)
  expect(await stage.lock(key)).toMatchObject({ session: next.session })
  expect((await stage.lock(key))?.token).toBeGreaterThan(after.base)
})

test('the time is assigned, not only prolonged: the clock may be another one', async () => {
  const [early, late] = [await stage.actor('early', '10s'), await stage.actor('late', '20s')]
  await ago(early, '1 hour')
  await ago(late, '-1 hour')
  await crash()
  await (await stage.actor('first', null)).tick()
  for (const [actor, ttl] of [
    [early, 10_000],
    [late, 20_000],
  ] as const) {
    const left = (await stage.session(actor))?.left
    expect(left).toBeGreaterThan(ttl - 5_000)
    expect(left).toBeLessThanOrEqual(ttl)
  }
})

test('the dead stay dead', async () => {
  const dead = await stage.actor('dead')
  const key = stage.key()
  await dead.acquire(key)
  await stage.sql('update $schema.sessions set died = clock_timestamp() where id = $1', [dead.session])
  await crash()
  expect((await dead.heartbeat()).renewed).toBe(false)
  expect(await stage.session(dead)).toMatchObject({ dead: true })
})

test.each([true, false])(
  'two first calls at once begin one incarnation (the first of them commits: %s)',
  async commits => {
    const [one, other] = [await stage.actor('one'), await stage.actor('other')]
    const before = await incarnation(stage)
    await crash()
    await one.begin()
    const first = await one.heartbeat()
    const beat = other.heartbeat()
    await stage.blocked(other, one)
    await (commits ? one.commit() : one.rollback())
    const second = await beat
    expect(second.boot === first.boot).toBe(commits)
    expectNew(before, await incarnation(stage))
    expect(await incarnation(stage)).toMatchObject({ boot: second.boot, base: second.base })
  },
)

describe('the base', () => {
  const setBase = async (base: bigint) => {
    await stage.sql('update $schema.cluster set base = $1', [String(base)])
    return base
  }
  /** The base that this moment has by the server's clock. */
  async function byClock(): Promise<bigint> {
    const [row] = await stage.sql(
      `select floor(extract(epoch from clock_timestamp() - timestamptz '2026-01-01 00:00:00+00'))::bigint as seconds`,
    )
    return BigInt(row?.seconds ?? 0) * step
  }
  const next = async (seen?: { base: bigint }) => (await (await stage.actor('actor')).heartbeat(seen)).base

  test('is the clock’s where that is ahead, so that it rises though a counter was lost', async () => {
    await setBase(7n * step)
    const least = await byClock()
    await crash()
    const base = await next()
    expect(base).toBeGreaterThanOrEqual(least)
    expect(base).toBeLessThanOrEqual(await byClock())
  })

  test('rises by one step where it is ahead of the clock', async () => {
    const base = await setBase((await byClock()) + 1000n * step)
    await crash()
    expect(await next()).toBe(base + step)
  })

  test('rises by one more for each timeline', async () => {
    const base = await setBase((await byClock()) + 2000n * step)
    await stage.sql('update $schema.cluster set timeline = timeline - 3')
    expect(await next()).toBe(base + 4n * step)
  })

  test('rises above what a caller has seen, with a grace', async () => {
    const [actor, other] = [await stage.actor('actor'), await stage.actor('other')]
    const key = stage.key()
    await other.acquire(key)
    await ago(other, '1 hour')
    await stage.reapDue()
    const before = await incarnation(stage)
    const seen = before.base + 5n * step
    await actor.tick([], [], { base: seen })
    expect((await incarnation(stage)).base).toBeGreaterThanOrEqual(seen + step)
    expectNew(before, await incarnation(stage))
    expect((await stage.session(other))?.left).toBeGreaterThan(20_000)
    expect(await stage.lock(key)).toMatchObject({ session: other.session })
  })

  test('believes a caller up to a day ahead of the clock, and no more', async () => {
    await setBase((await byClock()) - 10n * step)
    const day = 86_400n
    const before = await incarnation(stage)
    expect(await next({ base: (await byClock()) + (day + 60n) * step })).toBe(before.base)
    const seen = (await byClock()) + (day - 60n) * step
    expect(await next({ base: seen })).toBe(seen + step)
  })

  test('a caller too far ahead does not keep a new incarnation from its base', async () => {
    await crash()
    const base = await next({ base: (await byClock()) + 10_000_000n * step })
    expect(base).toBeLessThan((await byClock()) + 1_000_000n * step)
  })

  test('tokens rise with it', async () => {
    const key = stage.key()
    const actor = await stage.actor('actor')
    const tokens: bigint[] = []
    for (let i = 0; i < 3; i++) {
      const { token } = await actor.acquire(key, { request: randomUUID() })
      tokens.push(token ?? 0n)
      await actor.release(key, token)
      await crash()
    }
    expect(tokens).toEqual(tokens.toSorted((a, b) => (a < b ? -1 : 1)))
    expect((tokens[1] ?? 0n) - (tokens[0] ?? 0n)).toBeGreaterThanOrEqual(step)
  })
})
