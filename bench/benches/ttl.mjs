import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { bar } from '../harness/bars.mjs'
import { monotonic } from '../harness/clock.mjs'
import { percentile } from '../harness/percentiles.mjs'
import { startProcess } from '../harness/process.mjs'
import { Refusal } from '../harness/refusal.mjs'
import { fixed } from '../harness/table.mjs'

export const summary = 'which ttl: holders that are killed, and holders that stand still'

export const servers = /** @type {const} */ ([])

export const lengths = { rounds: 2 }

/** Three connections for each key that is held, of twenty keys for each ttl. */
export const settings = { max_connections: '500' }

/** @type {readonly string[]} */
export const leftOut = []

/** Milliseconds. */
const TTLS = [1_000, 5_000, 30_000, 60_000]
const ABOVE_THE_BOUND = 300_000
/** Of who waits, who is to lose nothing. */
const WAITERS_TTL = 30_000
/** Sessions for each ttl, each with a key and somebody in line for it. */
const SESSIONS = 20
const SLACK = 500
/** Milliseconds for the heartbeat that comes after a stall to be answered. */
const ROUND_TRIP = 100

const ttlsOf = (/** @type {boolean} */ all) => (all ? [...TTLS, ABOVE_THE_BOUND] : TTLS)
const margin = (/** @type {number} */ ttl) => Math.max(200, ttl / 20)
/** How long a holder may stand still, whenever that begins, and go on. */
const forgiven = (/** @type {number} */ ttl) => (ttl * 2) / 3 - margin(ttl)

/** @param {import('../harness/bench.mjs').Bench} bench */
export const lasts = ({ rounds, all }) =>
  `${rounds} rounds of ${SESSIONS} holders for each ttl, all ttls at once: ${Math.round((rounds * Math.max(...ttlsOf(all)) * 4.5) / 60_000)} minutes`

export async function prepare() {
  return []
}

/** @param {import('../harness/bench.mjs').Bench} bench */
export async function measure(bench) {
  const { Fencepost } = await import('../../dist/index.js')
  const url = await bench.url('postgres')
  const migrating = new Fencepost({ connectionString: url })
  await migrating.migrate()
  await migrating.close()
  const database = new pg.Pool({ connectionString: url })
  database.on('error', () => {})
  await database.query("select fencepost.configure(max_ttl => $1 * interval '1 ms')", [
    Math.max(...ttlsOf(bench.all)),
  ])
  const tracks = ttlsOf(bench.all).map(ttl => new Track(bench, url, database, ttl))
  const found = await Promise.all(tracks.map(track => track.run())).finally(() => database.end())
  return {
    cells: found.map(({ ttl, ...figures }) => ({ case: 'ttl', who: `${ttl / 1000} s`, ...figures })),
    bars: found.flatMap(({ ttl, p95, lost, told, held }) => [
      bar(`${ttl / 1000} s: killed, until the next one holds: p95, s`, '<=', (ttl + SLACK) / 1000, p95),
      bar(`${ttl / 1000} s: lost by stalls below ⅔ ttl - margin`, '<=', 0, lost),
      bar(`${ttl / 1000} s: stalls above the ttl that were told, share`, '>=', 1, told),
      bar(`${ttl / 1000} s: answered held after the next grant`, '<=', 0, held),
    ]),
    columns: [
      { figure: 'rounds', head: 'holders', show: fixed(0) },
      { figure: 'p50', head: 'killed: next after, p50 s', show: fixed(2) },
      { figure: 'p95', head: 'p95 s', show: fixed(2) },
      { figure: 'brief', head: 'stall forgiven, s', show: fixed(2) },
      { figure: 'lost', head: 'lost by it', show: fixed(0) },
      { figure: 'long', head: 'stall above, s', show: fixed(1) },
      { figure: 'told', head: 'told, share', show: fixed(2) },
      { figure: 'toldAfter', head: 'at most ms after it', show: fixed(0) },
      { figure: 'beats', head: 'heartbeats/h', show: fixed(0) },
    ],
  }
}

/** One ttl: holders that stand still for less than it forgives, for longer than it, and that are killed. */
class Track {
  #bench
  #url
  #database
  #ttl
  #keys = 0
  /** When who waits was granted a key. @type {Map<string, number>} */
  #granted = new Map()
  /** @type {string[]} */
  #failures = []
  #figures = {
    recoveries: /** @type {number[]} */ ([]),
    lost: 0,
    stalled: 0,
    told: 0,
    toldAfter: 0,
    held: 0,
  }

  /**
   * @param {import('../harness/bench.mjs').Bench} bench
   * @param {string} url
   * @param {pg.Pool} database
   * @param {number} ttl
   */
  constructor(bench, url, database, ttl) {
    this.#bench = bench
    this.#url = url
    this.#database = database
    this.#ttl = ttl
  }

  async run() {
    const ttl = this.#ttl
    const waiter = await startProcess('holder.mjs', [], 'who waits')
    waiter.listen(({ key, at, failure }) => {
      if (failure) this.#failures.push(`${key}: ${failure}`)
      else this.#granted.set(key, at)
    })
    for (let round = 0; round < this.#bench.rounds; round++) {
      for (const [what, part] of /** @type {const} */ ([
        ['stalled briefly', this.#stallBriefly],
        ['stalled for longer', this.#stallForLong],
        ['killed', this.#kill],
      ])) {
        await this.#part(waiter, part)
        this.#bench.say(round, `ttl ${ttl / 1000} s, ${what}`)
      }
    }
    await waiter.call('close')
    waiter.kill('SIGKILL')
    if (this.#failures.length > 0) throw new Error(this.#failures.join('\n'))
    const { recoveries, lost, stalled, told, toldAfter, held } = this.#figures
    const sorted = recoveries.sort((one, other) => one - other)
    return {
      ttl,
      rounds: sorted.length,
      p50: percentile(sorted, 0.5) / 1000,
      p95: percentile(sorted, 0.95) / 1000,
      brief: this.#brief / 1000,
      lost,
      long: this.#long / 1000,
      told: told / stalled,
      toldAfter,
      held,
      beats: 3_600_000 / (ttl / 3),
    }
  }

  get #brief() {
    return forgiven(this.#ttl) - ROUND_TRIP
  }

  get #long() {
    return this.#ttl * 1.1 + SLACK
  }

  /**
   * Fresh keys, a fresh process that holds them, and who waits for them.
   * @param {import('../harness/process.mjs').Process} waiter
   * @param {(this: Track, holder: import('../harness/process.mjs').Process, keys: readonly string[]) => Promise<void>} part
   */
  async #part(waiter, part) {
    const [url, ttl] = [this.#url, this.#ttl]
    const keys = Array.from({ length: SESSIONS }, () => `bench:${ttl}:${this.#keys++}`)
    const holder = await startProcess('holder.mjs', [], 'who holds')
    await holder.call('hold', { url, ttl, keys })
    await waiter.call('wait', { url, ttl: WAITERS_TTL, keys })
    const inLine = 'select from fencepost.waiters where key = any ($1)'
    const deadline = monotonic() + 30_000
    while ((await this.#database.query(inLine, [keys])).rowCount !== keys.length) {
      if (monotonic() > deadline)
        throw new Refusal(`ttl ${ttl} ms: lost before it began: is the machine busy?`)
      await pause(20)
    }
    // Not in the rhythm of what was there before.
    await pause((Math.random() * ttl) / 3)
    await part.call(this, holder, keys)
    holder.kill('SIGKILL')
    await this.#allGranted(keys)
    await waiter.call('letGo')
  }

  /** @param {import('../harness/process.mjs').Process} holder */
  async #stallBriefly(holder) {
    holder.kill('SIGSTOP')
    await pause(this.#brief)
    holder.kill('SIGCONT')
    const accounts = [await look(holder)]
    // Until all have renewed: what was lost would be told by then.
    await pause(this.#ttl / 3)
    accounts.push(await look(holder))
    const lost = accounts.flat().filter(({ state }) => state === 'lost')
    this.#figures.lost += new Set(lost.map(({ key }) => key)).size
    await holder.call('close')
  }

  /**
   * @param {import('../harness/process.mjs').Process} holder
   * @param {readonly string[]} keys
   */
  async #stallForLong(holder, keys) {
    holder.kill('SIGSTOP')
    await Promise.all([pause(this.#long), this.#allGranted(keys)])
    const { rows } = await this.#database.query(
      'select key, extract(epoch from granted_at) * 1000 as at from fencepost.locks where key = any ($1)',
      [keys],
    )
    const grantedAt = new Map(rows.map(({ key, at }) => [key, Number(at)]))
    const continued = monotonic()
    holder.kill('SIGCONT')
    for (const { key, state, reason, toldAt, believedUntil } of await look(holder)) {
      this.#figures.stalled += 1
      if (state === 'lost' && reason !== undefined && toldAt !== undefined) {
        this.#figures.told += 1
        this.#figures.toldAfter = Math.max(this.#figures.toldAfter, toldAt - continued)
      }
      if (believedUntil > (grantedAt.get(key) ?? 0)) this.#figures.held += 1
    }
  }

  /**
   * @param {import('../harness/process.mjs').Process} holder
   * @param {readonly string[]} keys
   */
  async #kill(holder, keys) {
    const killed = monotonic()
    holder.kill('SIGKILL')
    await this.#allGranted(keys)
    this.#figures.recoveries.push(...keys.map(key => (this.#granted.get(key) ?? Number.NaN) - killed))
  }

  /** @param {readonly string[]} keys */
  async #allGranted(keys) {
    const deadline = monotonic() + 3 * this.#ttl + 10_000
    while (!keys.every(key => this.#granted.has(key))) {
      if (this.#failures.length > 0 || monotonic() > deadline)
        throw new Error(`not granted within three ttls: ${this.#failures.join(', ')}`)
      await pause(20)
    }
  }
}

/**
 * @param {import('../harness/process.mjs').Process} holder
 * @returns {Promise<import('../harness/holder.mjs').Account[]>}
 */
const look = holder => holder.call('look')
