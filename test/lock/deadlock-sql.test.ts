// What the database says of who waits for whom, and what is made of it: random sections of several tasks in two processes.
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Wait } from '../../src/database/answers.ts'
import { deadlockOf } from '../../src/lock/deadlock.ts'
import { seed } from '../model/seed.ts'
import { Stage } from '../schedules/support/stage.ts'
import { randomBy } from '../support/random.ts'

let stage: Stage
let sessions: readonly [string, string]
const random = randomBy(seed)
const below = (limit: number) => Math.floor(random() * limit)
beforeAll(async () => {
  stage = await Stage.create()
  sessions = [(await stage.actor('one', '1min')).session, (await stage.actor('other', '1min')).session]
})
afterAll(() => stage.drop())

/** One request: of a section, or of a task that has none yet. */
interface Ask {
  readonly picture: number
  readonly process: number
  readonly request: string
  readonly context: string | undefined
  /** By number; in an ordered picture a section asks for higher ones alone. */
  readonly key: number
  readonly terms: object
}

interface Grant {
  readonly request: string
  readonly session: string
  readonly key: string
  readonly token: string
}

const [pictures, keys] = [400, 6]
const grants = (): Promise<Grant[]> =>
  stage.sql(`select request, session, key, token from $schema.locks where session is not null and not released
             union all select request, session, key, token from $schema.holders`) as Promise<Grant[]>
const inLine = () =>
  stage.sql('select distinct request, session, split_part(key, $1, 1) as picture from $schema.waiters', [' '])

/** Every third key is a semaphore. */
function terms(key: number): object {
  if (key % 3 === 2) return { mode: 'permits', permits: below(4) > 0 ? 1 : 2, capacity: 2 }
  return below(2) === 0 ? { mode: 'shared' } : {}
}

/** What somebody of a picture asks for next: in a section that is held, or as a new task. */
function nextAsk(picture: number, held: readonly Ask[], isOrdered: boolean): Ask | undefined {
  const outer = below(4) > 0 ? held[below(held.length)] : undefined
  const lowest = isOrdered && outer ? outer.key + 1 : 0
  const key = lowest + below(keys - lowest)
  if (lowest >= keys) return undefined
  const process = outer?.process ?? below(2)
  return { picture, process, request: randomUUID(), context: outer?.request, key, terms: terms(key) }
}

/** One ask in each picture, again and again; the answer is all of them. */
async function paint(isOrdered: boolean): Promise<Map<string, Ask>> {
  const asks = new Map<string, Ask>()
  for (let round = 0; round < 14; round += 1) {
    const granted = new Set((await grants()).map(({ request }) => request))
    // In the order in which they asked, so that a seed decides all.
    const held = [...asks.values()].filter(({ request }) => granted.has(request))
    const next: Ask[] = []
    for (let picture = 0; picture < pictures; picture += 1) {
      const ask = nextAsk(
        picture,
        held.filter(one => one.picture === picture),
        isOrdered,
      )
      if (ask) next.push(ask)
    }
    for (const ask of next) asks.set(ask.request, ask)
    for (const process of [0, 1]) {
      const own = next.filter(ask => ask.process === process)
      await stage.sql('select from $schema.acquire($1, 1, $2, $3, asks => $4::jsonb[])', [
        sessions[process],
        own.map(({ picture, key }) => `${picture} ${key}`),
        own.map(({ request }) => request),
        own.map(({ terms, context }) => JSON.stringify({ ...terms, context })),
      ])
    }
  }
  return asks
}

/** The pictures in which somebody is told, by what each that is in line would find. */
async function alarms(): Promise<Set<number>> {
  const rows = await stage.sql(
    `select w.request as asks, split_part(w.key, ' ', 1)::int as picture, b.*
       from $schema.waiters w cross join lateral $schema.waits_for(w.session, w.request) b`,
  )
  const waits = new Map<string, { picture: number; waits: Wait[] }>()
  for (const { asks, picture, waiter, ticket, key, owner, blocker, alternative } of rows) {
    const one = waits.get(asks) ?? { picture, waits: [] as Wait[] }
    waits.set(asks, one)
    one.waits.push({
      waiter: Number(waiter),
      ticket: ticket === null ? undefined : BigInt(ticket),
      key: key ?? undefined,
      owner,
      blocker: Number(blocker),
      isAlternative: alternative,
    })
  }
  return new Set([...waits.values()].filter(one => deadlockOf(one.waits)).map(({ picture }) => picture))
}

/** Lets all sections end that can: those in which nothing is held and nothing is waited for. Until none can. */
async function drain(asks: ReadonlyMap<string, Ask>): Promise<Set<number>> {
  for (;;) {
    const [held, waiting] = [await grants(), await inLine()]
    const busy = new Set([...held, ...waiting].map(({ request }) => asks.get(request)?.context))
    const over = held.filter(({ request }) => !busy.has(request))
    if (over.length === 0) return new Set(waiting.map(({ picture }) => Number(picture)))
    for (const session of sessions) {
      const own = over.filter(grant => grant.session === session)
      await stage.sql('select from $schema.release($1, $2, $3)', [
        session,
        own.map(({ key }) => key),
        own.map(({ token }) => token),
      ])
    }
  }
}

async function wipe(): Promise<void> {
  for (const table of ['waiters', 'holders', 'locks']) await stage.sql(`delete from $schema.${table}`)
}

/** Pictures in which each process waits for the other: a circle, if processes were the nodes. */
async function mutual(): Promise<number> {
  const rows = await stage.sql(
    `select split_part(w.key, ' ', 1) as picture from $schema.waiters w
       join (select key, session from $schema.locks union all select key, session from $schema.holders) h
         on h.key = w.key and h.session <> w.session
      group by 1 having count(distinct w.session) = 2`,
  )
  return rows.length
}

test('sections that ask for keys in one order: nobody is told, though processes wait for each other', async () => {
  const asks = await paint(true)
  expect(await mutual()).toBeGreaterThan(pictures / 20)
  expect(await alarms()).toEqual(new Set())
  expect(await drain(asks)).toEqual(new Set())
  await wipe()
})

test('sections that ask for them in any order: somebody is told where somebody stays stuck, and nowhere else', async () => {
  const asks = await paint(false)
  const early = await alarms()
  const stuck = await drain(asks)
  expect([...early].filter(picture => !stuck.has(picture))).toEqual([])
  expect(await alarms()).toEqual(stuck)
  expect(stuck.size).toBeGreaterThan(pictures / 20)
  expect(stuck.size).toBeLessThan(pictures)
  await wipe()
})
