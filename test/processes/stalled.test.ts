// Processes that stand still past their ttl while somebody else takes over: when they go on they are told before they
// can do anything in the belief that they hold.
import { afterEach, describe, expect, test } from 'vitest'
import { until } from '../support/until.ts'
import { Stage } from './stage.ts'
import type { Worker } from './worker.ts'

const stage = new Stage()
const ttl = 1_500
// Each of the others, read first, is for test/session/gates.test.ts.
const gates = ['state', 'token']
const refused = { state: 'lost', remaining: 0, aborted: true, assertHeld: 'lost', token: 'lost' }

let holder: Worker
let next: Worker
afterEach(() => holder.cont())

/** One that holds, and is in line for nothing; another that waits for it. */
async function cast() {
  ;[holder, next] = (await stage.workers({ ttl }, {})) as [Worker, Worker]
  const held = await holder.hold('k')
  expect(await holder.gates(held.id)).toMatchObject({ state: 'held', aborted: false, assertHeld: 'passed' })
  const waiting = next.acquire('k')
  await stage.inLine('k', 1)
  return { held, waiting }
}

/** The last moment at which it was seen to believe that it holds. */
async function believedUntil(id: string): Promise<number> {
  const periods = await holder.history(id)
  return Math.max(
    ...periods.filter(({ state }) => state === 'held' || state === 'degraded').map(each => each.until),
  )
}

test('stopped and continued: told at once, and it believed nothing after the next one held', async () => {
  const { held, waiting } = await cast()
  holder.stop()
  const granted = await next.granted(waiting)
  expect(granted.token).toBeGreaterThan(held.token)
  holder.cont()
  const aborted = await holder.message('aborted')
  expect(aborted).toMatchObject({ id: held.id, state: 'lost' })
  expect(await holder.gates(held.id)).toMatchObject(refused)
  expect(await believedUntil(held.id)).toBeLessThan(granted.at)
  expect(await holder.release(held.id)).toBe(aborted.reason)
  // It is good for another lock.
  const again = holder.acquire('k')
  await next.release(waiting)
  expect((await holder.granted(again)).token).toBeGreaterThan(granted.token)
})

describe.each(gates)('stopped, with a message to be handled when it goes on', first => {
  test(`the gate ${first} refuses before any timer has fired`, async () => {
    const { held, waiting } = await cast()
    holder.stop()
    const granted = await next.granted(waiting)
    // In its pipe by the time it goes on: its handler runs in the same round as the reading of the pipe.
    holder.send('gates', { id: held.id, first })
    holder.cont()
    expect(await holder.message('gates')).toMatchObject(refused)
    expect(await believedUntil(held.id)).toBeLessThan(granted.at)
  })

  test(`its loop blocked instead, the gate ${first} refuses before any timer has fired`, async () => {
    const { held, waiting } = await cast()
    holder.send('block', { id: held.id, ms: 2 * ttl, first })
    const granted = await next.granted(waiting)
    expect(await holder.message('gates')).toMatchObject(refused)
    expect(await believedUntil(held.id)).toBeLessThan(granted.at)
  })
})

test('stopped for less than its trust: nothing is lost, and it goes on', async () => {
  const { held } = await cast()
  holder.stop()
  const stopped = performance.now()
  await until(() => performance.now() - stopped > ttl / 3)
  holder.cont()
  await until(async () => (await holder.gates(held.id)).state === 'held')
  const [row] = await stage.sql(`select token from $schema.locks where key = 'k'`)
  expect(BigInt(row?.token)).toBe(held.token)
  const periods = await holder.history(held.id)
  expect(periods.map(each => each.state).filter(state => state === 'lost' || state === 'suspended')).toEqual(
    [],
  )
  expect(await holder.release(held.id)).toBe('released')
})

test('one in line is stopped past its ttl and continued: it is told, and takes nothing', async () => {
  const [first, second] = (await stage.workers({}, { ttl })) as [Worker, Worker]
  holder = second
  const held = await first.hold('k')
  const waiting = second.acquire('k')
  await stage.inLine('k', 1)
  // It knows of its place: it has asked what became of it.
  await until(async () => {
    const rows = await stage.sql(
      `select from pg_stat_activity where datname = current_database() and application_name like 'fencepost %'
          and query like '%tick(%'`,
    )
    return rows.length > 0
  })
  second.stop()
  await until(async () => {
    await stage.sql(`update $schema.reaper set looked_at = '-infinity'`)
    await stage.sql('select $schema.tick(gen_random_uuid())')
    return (await stage.sql('select from $schema.waiters')).length === 0
  })
  second.cont()
  expect(await second.answer(waiting)).toMatchObject({ name: 'refused', code: 'lost' })
  expect(await first.release(held.id)).toBe('released')
  const again = await second.hold('k')
  expect(again.token).toBeGreaterThan(held.token)
})
