/**
 * Ten thousand ticks under a clock that the test moves, now and then back, over both changes of daylight saving in several
 * zones. Nodes join and leave, wake late, believe in clocks of their own, know of slots that were decided long ago, and die with a tick that
 * they have started. Whatever they do, each slot has one row, and is started as often as its schedule says at most.
 */
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Timetable } from '../../src/schedule/timetable.ts'
import { seed } from '../model/seed.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { randomBy } from '../support/random.ts'
import { twistName } from '../support/settings.ts'
import { samples, slotsBetween, zones } from './zones.ts'

const hour = 3_600_000
/** So many schedules at once: their calls travel together. */
const lanes = 12

let db: TestDatabase
let pool: pg.Pool
beforeAll(async () => {
  db = await createDatabase()
  pool = db.pool({ max: lanes, options: '-c synchronous_commit=off' })
  // Each schedule has a clock of its own.
  // Nothing crashes here, so that nothing need be flushed.
  await db.query(`create or replace function ${sql('durable')}() returns void language sql as ''`)
  await db.query(`select ${sql('configure')}(max_ttl => '1 h')`)
  await db.query('create table clock (name text primary key, at timestamptz not null)')
  await db.query(
    `create or replace function ${sql('schedule_time')}() returns timestamptz language sql as
     $$ select c.at from public.clock c where c.name = current_setting('application_name') $$`,
  )
})
afterAll(() => db.drop())

const sql = (name: string) => `${pg.escapeIdentifier(db.schema)}.${name}`

interface Plan {
  readonly name: string
  readonly zone: string
  readonly sample: (typeof samples)[number]
  readonly from: number
  readonly until: number
}

const plans: Plan[] = zones.flatMap(({ zone, changes }) =>
  changes.flatMap(change =>
    samples.map(sample => ({
      name: `${sample.cron} ${zone} ${change}`.slice(0, 60),
      zone,
      sample,
      from: Date.parse(change) - 50 * hour,
      until: Date.parse(change) + 64 * hour,
    })),
  ),
)

class Dice {
  readonly #random: () => number

  constructor(seed: number) {
    this.#random = randomBy(seed)
  }

  /** A whole number from 0, below `most`. */
  below(most: number): number {
    return Math.floor(this.#random() * most)
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)] as T
  }
}

class Simulation {
  readonly #plan: Plan
  readonly #random: Dice
  readonly #timetable: Timetable
  readonly #definition: object
  readonly #attempts: number
  /** How often each slot was started, by those who did. */
  readonly starts = new Map<number, number>()
  #now: number
  readonly #session = crypto.randomUUID()
  #connection!: pg.PoolClient

  constructor(plan: Plan, random: Dice) {
    this.#plan = plan
    this.#random = random
    this.#now = plan.from
    this.#timetable = new Timetable(plan.sample.cron, plan.zone)
    this.#attempts = random.pick([1, 1, 2])
    this.#definition = {
      cron: plan.sample.cron,
      timezone: plan.zone,
      missed: random.pick(['skip', 'once', 'all']),
      overlap: random.pick(['skip', 'queue']),
      attempts: this.#attempts,
    }
  }

  get attempts(): number {
    return this.#attempts
  }

  async run(): Promise<void> {
    const { name, from, until } = this.#plan
    this.#connection = await pool.connect()
    try {
      await this.#connection.query(`select set_config('application_name', $1, false)`, [name])
      await this.#connection.query(`select from ${sql('open_session')}($1, '1 h')`, [this.#session])
      await this.#connection.query('insert into clock values ($1, $2)', [name, new Date(from)])
      const nodes = [await this.#join(), await this.#join()]
      while (this.#now < until) {
        const next = this.#timetable.next(this.#now) ?? until
        // Right on time, a little late, or past several slots.
        const late = this.#random.pick([0, 1, 40, 3_000, 90_000, 2 * hour])
        await this.#setClock(Math.min(next + this.#random.below(late + 1), until))
        if (this.#random.below(20) === 0) await this.#setClock(this.#now - this.#random.below(1.5 * hour))
        if (this.#random.below(10) === 0) nodes[this.#random.below(nodes.length)] = await this.#join()
        for (const node of nodes) if (this.#random.below(3) > 0) await this.#wake(node)
      }
      const last = await this.#join()
      await this.#wake(last, true)
      await this.#wake(last, true)
    } finally {
      this.#connection.release(true)
    }
  }

  /** A node, as what it knows of the slots that are decided: its own `upto`. */
  async #join(): Promise<{ upto: number }> {
    const { upto } = await this.#call('announce_schedule', [
      this.#plan.name,
      crypto.randomUUID(),
      this.#definition,
    ])
    return { upto: Number(upto) }
  }

  async #wake(node: { upto: number }, isReliable = false): Promise<void> {
    const { name, until } = this.#plan
    // By a clock of its own it may think that more is due.
    const believed = isReliable ? this.#now : this.#now + this.#random.pick([0, 0, 1_000, 3 * hour])
    const slots: number[] = []
    let slot = this.#timetable.next(node.upto)
    for (; slot !== undefined && slot <= Math.min(believed, until); slot = this.#timetable.next(slot))
      slots.push(slot)
    const token = await this.#lease()
    const take = (named: readonly number[], starts: boolean) =>
      this.#call('take_tick', [name, token, 1, named, null, starts])
    try {
      let taken = await take(slots, true)
      while (taken.slot !== null) {
        const started = Number(taken.slot)
        this.starts.set(started, (this.starts.get(started) ?? 0) + 1)
        const fate = isReliable
          ? 'ends'
          : this.#random.pick(['ends', 'ends', 'ends', 'fails', 'lasts', 'dies'])
        if (fate === 'dies') return
        if (fate === 'lasts') {
          // A slot or two come while it runs; somebody says so, or nobody.
          await this.#setClock(Math.min(this.#now + this.#random.below(45 * 60_000), until))
          const next = this.#timetable.next(node.upto)
          if (next !== undefined && this.#random.below(2) === 0) await take([...slots, next], false)
        }
        await this.#end(started, taken.attempt as number, token, fate === 'fails')
        taken = await take([], true)
      }
      // What it knows it may soon forget to learn.
      if (this.#random.below(3) > 0) node.upto = Number(taken.upto)
    } finally {
      await this.#connection.query(`select from ${sql('release')}($1, $2, $3)`, [
        this.#session,
        [`${name}:schedule`],
        [token],
      ])
    }
  }

  async #lease(): Promise<string> {
    const { rows } = await this.#connection.query(
      `select token from ${sql('acquire')}($1, 1, $2, array[gen_random_uuid()])`,
      [this.#session, [`${this.#plan.name}:schedule`]],
    )
    return rows[0].token
  }

  async #end(slot: number, attempt: number, token: string, failed: boolean): Promise<void> {
    const { rows } = await this.#connection.query(`select ${sql('end_tick')}($1, $2, $3, $4, $5) as ended`, [
      this.#plan.name,
      token,
      slot,
      attempt,
      failed,
    ])
    expect(rows[0].ended).toBe(true)
  }

  async #setClock(to: number): Promise<void> {
    this.#now = to
    await this.#connection.query('update clock set at = $2 where name = $1', [this.#plan.name, new Date(to)])
  }

  async #call(
    name: string,
    values: unknown[],
  ): Promise<{ upto: string; slot: string | null; attempt: number | null }> {
    const places = values.map((_, i) => `$${i + 1}`)
    const { rows } = await this.#connection.query(`select * from ${sql(name)}(${places.join(', ')})`, values)
    return rows[0]
  }
}

interface Row {
  readonly name: string
  readonly slot: number
  readonly state: string
  readonly attempt: number
  readonly early: boolean
}

/** All of them, and what is in the table then. A schedule that nobody has named for 90 days would be forgotten meanwhile. */
async function simulate(season: readonly Plan[], number: number): Promise<Row[]> {
  await db.query(`truncate ${sql('ticks')}`)
  const simulations = season.map((plan, i) => ({
    plan,
    simulation: new Simulation(plan, new Dice(seed + number * 1_000 + i)),
  }))
  const waiting = [...simulations]
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      for (let next = waiting.pop(); next; next = waiting.pop()) await next.simulation.run()
    }),
  )
  const rows = await db.query<Row & Record<string, unknown>>(
    `select name, extract(epoch from slot)::float8 * 1000 as slot, state, attempt, recorded_at < slot as early
       from ${sql('ticks')} order by slot`,
  )
  for (const { plan, simulation } of simulations) {
    const mine = rows.filter(({ name }) => name === plan.name)
    const iso = (slots: readonly number[]) => slots.map(slot => new Date(slot).toISOString())
    expect(iso(mine.map(({ slot }) => slot)), plan.name).toEqual(
      iso(slotsBetween(plan.sample, plan.zone, plan.from, plan.until)),
    )
    for (const { slot, state, attempt, early } of mine) {
      expect(early).toBe(false)
      expect(simulation.starts.get(slot) ?? 0).toBe(attempt)
      expect(attempt).toBeLessThanOrEqual(simulation.attempts)
      if (state === 'skipped' || state === 'missed') expect(attempt).toBe(0)
    }
  }
  return rows
}

// How the product connects makes no difference to what its functions do: once is enough.
const once = test.skipIf(twistName !== 'none')

once('each slot has one row, whatever the nodes and their clocks do', { timeout: 120_000 }, async () => {
  const half = Date.parse('2025-07-01')
  const rows = [
    ...(await simulate(
      plans.filter(({ from }) => from < half),
      1,
    )),
    ...(await simulate(
      plans.filter(({ from }) => from > half),
      2,
    )),
  ]
  expect(rows.length).toBeGreaterThan(10_000)
  // All of it happened, and nothing was left open.
  const states = new Map<string, number>()
  for (const { state } of rows) states.set(state, (states.get(state) ?? 0) + 1)
  expect([...states.keys()].sort()).toEqual(['failed', 'finished', 'missed', 'skipped'])
  for (const count of states.values()) expect(count).toBeGreaterThan(100)
})
