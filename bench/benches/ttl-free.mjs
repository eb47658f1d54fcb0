import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { bar } from '../harness/bars.mjs'
import { Cells } from '../harness/cells.mjs'
import { median, percentile } from '../harness/percentiles.mjs'
import { CYCLES, fixed } from '../harness/table.mjs'

export const summary = 'from the release of a holder to the grant of who waits, in another client'

export const servers = /** @type {const} */ ([])

export const lengths = { rounds: 1, window: 60_000 }

/** @type {readonly string[]} */
export const leftOut = []

/** @param {import('../harness/bench.mjs').Bench} bench */
export const lasts = ({ rounds, window }) => `${rounds} rounds, ${window / 1000} s each way`

const CASE = 'release to grant'
const BY_NOTIFICATION = 'by notification'
const byPoll = (/** @type {number} */ poll) => `by poll alone, every ${poll} ms`
/** Milliseconds: the default, and a short one. */
const POLLS = [1000, 100]

export async function prepare() {
  return []
}

/** @param {import('../harness/bench.mjs').Bench} bench */
export async function measure(bench) {
  const cells = new Cells()
  for (let round = 0; round < bench.rounds; round++) {
    for (const way of ways()) {
      const sorted = Float64Array.from(await run(bench, way)).sort()
      const shares = { p50: 0.5, p95: 0.95, p99: 0.99 }
      const figures = Object.fromEntries(
        Object.entries(shares).map(([name, share]) => [name, percentile(sorted, share)]),
      )
      cells.add(CASE, way.name, { count: sorted.length, ...figures })
      bench.say(round, `${way.name}: median ${median([...sorted]).toFixed(2)} ms of ${sorted.length}`)
    }
  }
  return {
    cells: cells.all(),
    bars: [
      bar(`${BY_NOTIFICATION}: p50, ms`, '<=', 3, cells.get(CASE, BY_NOTIFICATION).p50),
      ...POLLS.map(poll => bar(`${byPoll(poll)}: p50, ms`, '<=', poll, cells.get(CASE, byPoll(poll)).p50)),
    ],
    columns: [{ figure: 'count', head: 'hand-overs', show: fixed(0) }, ...CYCLES],
  }
}

/**
 * @typedef {object} Way
 * @property {string} name
 * @property {object} options of the client that waits
 * @property {number} waiters clients, each with a key of its own: who joins a line makes its client look more often
 * @property {() => number} wait milliseconds that somebody has waited when the holder releases
 */

/** @returns {Way[]} */
function ways() {
  return [
    // One at a time: it is the latency of an idle machine.
    { name: BY_NOTIFICATION, options: {}, waiters: 1, wait: () => 5 + 20 * Math.random() },
    // A waiter looks seldom only when it has waited long: by then the pause between its looks has grown to the interval.
    ...POLLS.map(poll => ({
      name: byPoll(poll),
      options: { listen: false, poll },
      waiters: 10,
      wait: () => poll * (4 + Math.random()),
    })),
  ]
}

/**
 * Holder and waiters are clients in this process, so that one clock times both ends.
 * @param {import('../harness/bench.mjs').Bench} bench
 * @param {Way} way
 */
async function run(bench, { options, waiters, wait }) {
  const { Fencepost } = await import('../../dist/index.js')
  const url = await bench.url('postgres')
  const holder = new Fencepost({ connectionString: url })
  const waiting = Array.from({ length: waiters }, () => new Fencepost({ connectionString: url, ...options }))
  const observer = new pg.Pool({ connectionString: url, max: 4 })
  await holder.migrate()
  /** @type {number[]} */
  const latencies = []
  const closes = performance.now() + bench.window
  const handOver = async (
    /** @type {import('../../dist/index.js').Fencepost} */ waiter,
    /** @type {string} */ key,
  ) => {
    const held = await holder.acquire(key)
    const granted = waiter.acquire(key)
    while (!(await isInLine(observer, key))) await pause(1)
    await pause(wait())
    const released = performance.now()
    void held.release()
    const lock = await granted
    latencies.push(performance.now() - released)
    await lock.release()
  }
  try {
    await Promise.all(
      waiting.map(async (waiter, i) => {
        // Opens its connections and its session.
        await waiter.withLock(`bench:${i}`, () => {})
        do await handOver(waiter, `bench:${i}`)
        while (performance.now() < closes)
      }),
    )
    return latencies
  } finally {
    await Promise.all([holder, ...waiting].map(client => client.close()))
    await observer.end()
  }
}

/**
 * @param {pg.Pool} observer
 * @param {string} key
 */
async function isInLine(observer, key) {
  const text = 'select from fencepost.waiters where key = $1'
  return (await observer.query({ name: 'in line', text, values: [key] })).rowCount === 1
}
