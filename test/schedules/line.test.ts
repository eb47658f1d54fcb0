// Getting into a line, and out of it in order: no ticket without a row, none drawn beside the row's lock.
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import type { Actor } from './support/actor.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.create()
})
afterEach(async () => expect(await stage.clear()).toEqual(nothing))
afterAll(() => stage.drop())

const cast = (...names: string[]) => Promise.all(names.map(name => stage.actor(name))) as Promise<never>

/** Locks a key's row in the actor's open transaction, as every short call of the protocol does first. */
async function lockRow(actor: Actor, key: string): Promise<void> {
  expect(await actor.cancel(key, randomUUID())).toMatchObject([{ outcome: 'absent' }])
}

test.each([true, false])(
  'the row goes between the conflict and the enqueuing: again, and no ticket (wait %s)',
  async wait => {
    const key = stage.key()
    const [holder, other]: [Actor, Actor] = await cast('holder', 'other')
    const { token } = await holder.acquire(key)
    await holder.begin()
    await lockRow(holder, key)
    const request = randomUUID()
    const asked = other.acquire(key, { request, wait })
    await stage.blocked(other, holder)
    await holder.release(key, token)
    await holder.commit()
    expect((await asked).outcome).toBe('again')
    expect(await stage.line(key)).toEqual([])
    expect((await other.acquire(key, { request, wait })).outcome).toBe('granted')
  },
)

test('a flag left by one who was cancelled makes nobody pass the row by', async () => {
  const key = stage.key()
  const [holder, early, late]: [Actor, Actor, Actor] = await cast('holder', 'early', 'late')
  const { token } = await holder.acquire(key)
  await early.cancel(key, (await early.acquire(key)).request ?? '')
  expect(await stage.lock(key)).toMatchObject({ contended: true })
  expect(await stage.line(key)).toEqual([])
  await late.begin()
  expect((await late.acquire(key)).outcome).toBe('queued')
  const released = holder.release(key, token)
  await stage.blocked(holder, late)
  await late.commit()
  expect(await released).toMatchObject([{ outcome: 'released' }, { outcome: 'handed', key }])
  expect(await stage.lock(key)).toMatchObject({ session: late.session })
})

test('the first ticket of a key is seen by the release that it races', async () => {
  const key = stage.key()
  const [holder, waiter]: [Actor, Actor] = await cast('holder', 'waiter')
  const { token } = await holder.acquire(key)
  await waiter.begin()
  expect((await waiter.acquire(key)).outcome).toBe('queued')
  const released = holder.release(key, token)
  await stage.blocked(holder, waiter)
  await waiter.commit()
  expect(await released).toMatchObject([
    { outcome: 'released', token },
    { outcome: 'handed', key },
  ])
  expect(await stage.lock(key)).toMatchObject({ session: waiter.session, contended: false })
})

test('a ticket that is rolled back leaves the release as it was', async () => {
  const key = stage.key()
  const [holder, waiter]: [Actor, Actor] = await cast('holder', 'waiter')
  const { token } = await holder.acquire(key)
  await waiter.begin()
  await waiter.acquire(key)
  const released = holder.release(key, token)
  await stage.blocked(holder, waiter)
  await waiter.rollback()
  expect(await released).toMatchObject([{ outcome: 'released', token }])
  expect(await stage.lock(key)).toBeUndefined()
})

test('tickets are drawn under the row: who comes second waits for who is first to be in line', async () => {
  const key = stage.key()
  const [holder, first, second]: [Actor, Actor, Actor] = await cast('holder', 'first', 'second')
  const { token } = await holder.acquire(key)
  await first.begin()
  await first.acquire(key)
  const asked = second.acquire(key)
  await stage.blocked(second, first)
  await first.commit()
  expect((await asked).outcome).toBe('queued')
  expect(await stage.line(key)).toEqual([first.session, second.session])
  await holder.release(key, token)
  expect(await stage.lock(key)).toMatchObject({ session: first.session, contended: true })
})

test('a newcomer never overtakes, though the holder is gone', async () => {
  const key = stage.key()
  const [holder, waiter, newcomer]: [Actor, Actor, Actor] = await cast('holder', 'waiter', 'newcomer')
  await holder.acquire(key)
  await waiter.acquire(key)
  await stage.expire(holder)
  expect((await newcomer.acquire(key)).outcome).toBe('queued')
  expect(await stage.lock(key)).toMatchObject({ session: waiter.session })
  expect(await stage.line(key)).toEqual([newcomer.session])
})

test('a try takes no place, and does not overtake', async () => {
  const key = stage.key()
  const [holder, waiter, other]: [Actor, Actor, Actor] = await cast('holder', 'waiter', 'other')
  await holder.acquire(key)
  await waiter.acquire(key)
  await stage.expire(holder)
  expect((await other.acquire(key, { wait: false })).outcome).toBe('busy')
  expect(await stage.lock(key)).toMatchObject({ session: waiter.session })
  expect(await stage.line(key)).toEqual([])
})

test('two callers of one key in a batch: the second is in line behind the first', async () => {
  const key = stage.key()
  const [actor]: [Actor] = await cast('actor')
  const requests = [randomUUID(), randomUUID(), randomUUID()]
  const answers = await actor.acquireAll([key, key, key], requests)
  const outcomes = requests.map(request => answers.find(answer => answer.request === request)?.outcome)
  expect(outcomes).toEqual(['granted', 'queued', 'queued'])
  for (const [i, next] of [requests[1], requests[2]].entries()) {
    const token = (await stage.lock(key))?.token ?? 0n
    const [released, granted] = await actor.release(key, token)
    expect([i, released?.outcome, granted?.outcome, granted?.request]).toEqual([
      i,
      'released',
      'granted',
      next,
    ])
  }
})

test('a repeated request is one ticket, and one grant', async () => {
  const key = stage.key()
  const [holder, waiter]: [Actor, Actor] = await cast('holder', 'waiter')
  const request = randomUUID()
  const { token } = await holder.acquire(key)
  for (let i = 0; i < 3; i++) expect((await waiter.acquire(key, { request })).outcome).toBe('queued')
  expect(await stage.line(key)).toEqual([waiter.session])
  await holder.release(key, token)
  const granted = await stage.lock(key)
  expect(await waiter.acquire(key, { request })).toMatchObject({ outcome: 'granted', token: granted?.token })
  expect(await waiter.acquire(key, { request })).toMatchObject({ outcome: 'granted', token: granted?.token })
  expect(await stage.line(key)).toEqual([])
})

test('a ticket without a row is mended by a tick of its process', async () => {
  const key = stage.key()
  const [waiter, other]: [Actor, Actor] = await cast('waiter', 'other')
  const request = randomUUID()
  await stage.sql('insert into $schema.waiters (key, session, request) values ($1, $2, $3)', [
    key,
    waiter.session,
    request,
  ])
  expect(await other.tick([key], [randomUUID()])).toMatchObject([{ outcome: 'again' }])
  expect(await waiter.tick([key], [request])).toMatchObject([{ outcome: 'granted', request }])
})

test('a ticket from before the line’s beginning is found by a tick of its process', async () => {
  const key = stage.key()
  const [holder, waiter]: [Actor, Actor] = await cast('holder', 'waiter')
  const { token } = await holder.acquire(key)
  const request = randomUUID()
  await stage.sql('insert into $schema.waiters (key, session, request) values ($1, $2, $3)', [
    key,
    waiter.session,
    request,
  ])
  await stage.sql(
    `update $schema.locks set contended = true, served = (select max(ticket) from $schema.waiters) where key = $1`,
    [key],
  )
  expect(await waiter.tick([key], [request])).toMatchObject([{ outcome: 'queued', request }])
  await holder.release(key, token)
  expect(await stage.lock(key)).toMatchObject({ session: waiter.session })
})

/** How many entries of the indexes of a table were read so far in this transaction. */
const read = async (actor: Actor, table: 'locks' | 'waiters') => {
  const [row] = await actor.sql(
    `select sum(pg_stat_get_xact_tuples_returned(indexrelid))::int as read from pg_index where indrelid = '$schema.${table}'::regclass`,
  )
  return row?.read as number
}

/** To a planner that takes a table for empty every index costs the same, and a scan of all of it no more than a probe. */
const statistics: Record<string, (actor: Actor) => Promise<unknown>> = {
  'nobody has analyzed it': async () => {},
  'it was empty when it was analyzed': async actor => {
    await actor.sql('analyze $schema.locks')
    await actor.sql('analyze $schema.waiters')
  },
  'it was vacuumed and analyzed when everything in it was dead': async actor => {
    const key = stage.key()
    const { token } = await actor.acquire(key)
    for (let i = 0; i < 50; i += 1) await actor.cancel(key, (await actor.acquire(key)).request ?? '')
    await actor.release(key, token)
    await actor.sql('vacuum analyze $schema.locks')
    await actor.sql('vacuum analyze $schema.waiters')
  },
}

/** What becomes of a run before it is given back. */
const courses: Record<string, string> = {
  'handed over': 'select $1::uuid, $2::text',
  'handed over after a turn that was told':
    'select $schema.turn($1, array[key], array[token + 1]) from $schema.locks where key = $2',
  'handed over when its first is cancelled':
    'select $schema.cancel($1, array[key], array[request]) from $schema.locks where key = $2',
}

// In one transaction nothing that is deleted can be cleared away, as beside a transaction that holds a snapshot.
test.each(Object.keys(courses).flatMap(course => Object.keys(statistics).map(what => ({ course, what }))))(
  'whoever was served before is not read again, $course: $what',
  async ({ course, what }) => {
    const key = stage.key()
    const [one, other]: [Actor, Actor] = await cast('one', 'other')
    await statistics[what]?.(one)
    const rounds = 40
    await one.begin()
    const ask = (session: string) =>
      one.sql(
        'select * from $schema.acquire($1, 1, array_fill($2::text, $3), array(select gen_random_uuid() from generate_series(1, 3)))',
        [session, key, [3]],
      )
    const give = (session: string) =>
      one.sql(
        'select $schema.release($1, array[key], array[coalesce(token_to, token)]) from $schema.locks where key = $2',
        [session, key],
      )
    await ask(one.session)
    await ask(other.session)
    const before = await read(one, 'waiters')
    for (let round = 0; round < rounds; round += 1) {
      for (const session of [one.session, other.session]) {
        await one.sql(courses[course] ?? '', [session, key])
        await give(session)
        await ask(session)
        for (const either of [one.session, other.session])
          await one.sql('select $schema.tick($1, array[$2], array[gen_random_uuid()])', [either, key])
      }
    }
    expect((await read(one, 'waiters')) - before).toBeLessThan(rounds * 2 * 60)
    await one.rollback()
  },
)

test.each(Object.keys(statistics))(
  'whoever was served before is not read again, asked for anew: %s',
  async what => {
    const key = stage.key()
    const [one]: [Actor] = await cast('one')
    await statistics[what]?.(one)
    const rounds = 60
    await one.begin()
    await one.acquire(key)
    const before = await read(one, 'waiters')
    for (let round = 0; round < rounds; round += 1) {
      await one.sql(
        `select $schema.release_and_acquire($1, 1, key, coalesce(token_to, token), array(select gen_random_uuid() from generate_series(1, 5)))
         from $schema.locks where key = $2`,
        [one.session, key],
      )
    }
    expect((await read(one, 'waiters')) - before).toBeLessThan(rounds * 30)
    await one.rollback()
  },
)

test.each(Object.keys(statistics))(
  'a key is looked for as such, not among all that its session holds: %s',
  async what => {
    const [one, other]: [Actor, Actor] = await cast('one', 'other')
    const keys = Array.from({ length: 500 }, () => stage.key())
    await statistics[what]?.(one)
    await one.acquireAll(
      keys,
      keys.map(() => randomUUID()),
    )
    const place = { keys: keys.slice(0, 3), requests: [randomUUID(), randomUUID(), randomUUID()] }
    await one.acquireAll(place.keys, place.requests)
    await other.acquire(keys[1] ?? '')
    await one.begin()
    const steps = [
      'select $schema.tick($1, $2, $3)',
      'select $schema.turn($1, array[key], array[token + 1]) from $schema.locks where key = ($2::text[])[2] and $3::uuid[] is not null',
      'select $schema.release($1, array[key], array[token]) from $schema.locks where key = ($2::text[])[1] and $3::uuid[] is not null',
      'select $schema.release($1, array[key], array[token]) from $schema.locks where key = ($2::text[])[2] and $3::uuid[] is not null',
      'select $schema.cancel($1, $2, $3)',
      `select $schema.release_and_acquire($1, 1, key, token, array[gen_random_uuid()]) from $schema.locks where key = ($2::text[])[3] and $3::uuid[] is not null`,
    ]
    for (const step of steps) {
      const before = await read(one, 'locks')
      await one.sql(step, [one.session, place.keys, place.requests])
      expect([step, (await read(one, 'locks')) - before < 100]).toEqual([step, true])
    }
    await one.rollback()
  },
)

/** Who meets a row that was released under a guard, once that has ended, hands it over. */
const meeters: Record<string, (key: string, holder: Actor, other: Actor, token: bigint) => Promise<unknown>> =
  {
    'an acquire': (key, _, other) => other.acquire(key),
    'a try': (key, _, other) => other.acquire(key, { wait: false }),
    'the release, repeated': (key, holder, _, token) => holder.release(key, token),
    'a tick of who released it': (_key, holder) => holder.tick(),
    'a tick over all': async (_key, _holder, other) => {
      await stage.reapDue()
      await other.tick()
    },
    'a cancel of somebody else': (key, _, other) => other.cancel(key, randomUUID()),
    'a close of its session': (_key, holder) => holder.close(),
  }
test.each(Object.keys(meeters))('what was released under a guard is handed over by %s', async name => {
  const key = stage.key()
  const [holder, waiter, other]: [Actor, Actor, Actor] = await cast('holder', 'waiter', 'other')
  const guard = await stage.actor('guard', null)
  const token = (await holder.acquire(key)).token ?? 0n
  await waiter.acquire(key)
  await guard.begin()
  await guard.guard(key, token)
  expect(await holder.release(key, token)).toMatchObject([{ outcome: 'pinned', token, key }])
  await guard.commit()
  await meeters[name]?.(key, holder, other, token)
  expect(await stage.lock(key)).toMatchObject({ session: waiter.session, released: false })
})

test('a release that meets an enqueuer is recorded in the call that makes it', async () => {
  const key = stage.key()
  const [holder, first, second]: [Actor, Actor, Actor] = await cast('holder', 'first', 'second')
  const { token } = await holder.acquire(key)
  await first.acquire(key)
  await second.begin()
  await second.acquire(key)
  const released = holder.release(key, token, false)
  await stage.blocked(holder, second)
  await second.commit()
  expect(await released).toMatchObject([{ outcome: 'released' }, { outcome: 'handed' }])
  expect(await stage.lock(key)).toMatchObject({ session: first.session, contended: true })
})
