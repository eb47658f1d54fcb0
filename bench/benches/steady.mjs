import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { bar } from '../harness/bars.mjs'
import { Cells } from '../harness/cells.mjs'
import { now } from '../harness/clock.mjs'
import { Machine } from '../harness/machine.mjs'
import { startPeer } from '../harness/peer.mjs'
import { median } from '../harness/percentiles.mjs'
import { CYCLES, fixed } from '../harness/table.mjs'

export const summary = 'does it stay as fast as it was, also beside a transaction that is held open?'

export const servers = /** @type {const} */ ([])

export const lengths = { rounds: 1, window: 600_000 }

/** @type {readonly string[]} */
export const leftOut = []

/** @param {import('../harness/bench.mjs').Bench} bench */
export const lasts = ({ rounds, window }) => {
  const { warmUp, slice, slices } = timesOf(window)
  return `${rounds} rounds, ${window / 1000} s each part, in ${slices} windows of ${slice / 1000} s, after ${warmUp / 1000} s; ${BESIDE} a fifth of it`
}

/** Cold: keys that come again, each for one caller only. Hot: one key for all. */
const LOADS = [
  { what: '64 callers, 10,000 keys', callers: 64, keys: 10_000 },
  { what: '10 contenders, one key', callers: 10, keys: 1 },
]
const ALONE = 'alone'
/** For a fifth of the time: it becomes slower from one second to the next. */
const BESIDE = 'beside an open transaction'
/** The remedy: a snapshot holds back the vacuum of its own database only. */
const ELSEWHERE = 'beside one in another database'

/**
 * Windows of ten seconds after as long a warm-up, or tenths of what is measured.
 * @param {number} window
 */
function timesOf(window) {
  const slice = Math.min(10_000, window / 10)
  return { warmUp: slice, slice, slices: Math.floor(window / slice) }
}

/** @type {import('../harness/peer.mjs').Worker[]} */
const peers = []

export async function prepare() {
  peers.push(await startPeer('fencepost'))
  return peers
}

/** @param {import('../harness/bench.mjs').Bench} bench */
export async function measure(bench) {
  const cells = new Cells()
  for (let round = 0; round < bench.rounds; round++) {
    for (const load of LOADS) {
      for (const who of [ALONE, ELSEWHERE, BESIDE]) {
        const { courses, ...figures } = await run(bench, load, who)
        cells.add(load.what, who, figures)
        for (const [what, course] of Object.entries(courses))
          bench.say(round, `${load.what}, ${who}, ${what} by window: ${course.join(' ')}`)
      }
    }
  }
  const all = cells.all()
  return {
    cells: all,
    bars: all.flatMap(cell => [
      bar(`${cell.case}, ${cell.who}: lowest window / median`, '>=', 0.85, cell.lowest),
      bar(`${cell.case}, ${cell.who}: size of locks at the end / early`, '<=', 2, cell.end / cell.early),
    ]),
    columns: COLUMNS,
  }
}

const COLUMNS = [
  ...CYCLES.filter(column => column.figure === 'ops').map(column => ({ ...column, head: 'median ops/s' })),
  { figure: 'lowest', head: 'lowest window / median', show: fixed(2) },
  { figure: 'flush', head: 'flush then / median', show: fixed(2) },
  { figure: 'loop', head: 'loop then / median', show: fixed(2) },
  { figure: 'last', head: 'last / first window', show: fixed(2) },
  { figure: 'early', head: 'locks MB after a tenth', show: fixed(2) },
  { figure: 'end', head: 'at the end', show: fixed(2) },
  { figure: 'waiters', head: 'waiters MB at the end', show: fixed(2) },
]

/**
 * @param {import('../harness/bench.mjs').Bench} bench
 * @param {{ callers: number, keys: number }} load
 * @param {string} who
 */
async function run(bench, { callers, keys }, who) {
  const window = who === BESIDE ? bench.window / 5 : bench.window
  const [peer] = /** @type {[import('../harness/peer.mjs').Worker]} */ (peers)
  const url = await bench.url('postgres')
  const { warmUp, slice, slices } = timesOf(window)
  await peer.start({ url })
  const [observer, holder] = await Promise.all([
    connect(url),
    connect(who === ELSEWHERE ? await bench.url('postgres') : url),
  ])
  const machine = new Machine()
  try {
    // One that has a snapshot: nothing that dies in its database from now on may be cleared away.
    if (who !== ALONE) await holder.query('begin isolation level repeatable read; select from pg_class')
    const opens = now() + warmUp
    const counting = peer.series({ callers, keys, opens, slice, slices })
    // The first minute of ten.
    await pause(opens + window / 10 - now())
    const early = await sizeOf(observer, 'locks')
    const counts = await counting
    const [end, waiters] = [await sizeOf(observer, 'locks'), await sizeOf(observer, 'waiters')]
    const ops = counts.map(count => (count / slice) * 1000)
    const middle = median(ops)
    // How the machine itself was in the slowest window.
    const speeds = machine.windows(opens, slice, slices)
    const then = speeds[ops.indexOf(Math.min(...ops))] ?? { flush: Number.NaN, loop: Number.NaN }
    return {
      ops: middle,
      lowest: Math.min(...ops) / middle,
      last: Number(ops.at(-1)) / Number(ops[0]),
      early,
      end,
      waiters,
      flush: then.flush / median(speeds.map(({ flush }) => flush)),
      loop: then.loop / median(speeds.map(({ loop }) => loop)),
      courses: {
        'ops/s': ops.map(Math.round),
        'flush, µs': speeds.map(({ flush }) => flush),
        'loop, µs': speeds.map(({ loop }) => loop),
      },
    }
  } finally {
    await machine.stop()
    if (who !== ALONE) await holder.query('commit')
    await Promise.all([observer.end(), holder.end()])
    await peer.stop()
  }
}

/** @param {string} url */
async function connect(url) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  return client
}

/**
 * Megabytes, indexes included.
 * @param {pg.Client} client
 * @param {string} table
 */
async function sizeOf(client, table) {
  const { rows } = await client.query('select pg_total_relation_size($1::regclass) as size', [
    `fencepost.${table}`,
  ])
  return Number(rows[0].size) / 2 ** 20
}
