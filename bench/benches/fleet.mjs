import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { serverCpu } from '../harness/account.mjs'
import { bar } from '../harness/bars.mjs'
import { Cells } from '../harness/cells.mjs'
import { figuresOf, startCrew } from '../harness/crew.mjs'
import { inTurn } from '../harness/rounds.mjs'
import { CYCLES, fixed } from '../harness/table.mjs'

export const summary = 'one hot key and 100 cold ones, while 10, 100 and 300 processes listen'

export const servers = /** @type {const} */ ([])

export const settings = { max_connections: '400' }

export const lengths = { rounds: 3, window: 10_000 }

/** @type {readonly string[]} */
export const leftOut = []

/** How many there are, and whether those that take no locks listen or poll. */
const FLEETS = [
  { size: 10, listen: true, who: '10 listen' },
  { size: 100, listen: true, who: '100 listen' },
  { size: 300, listen: true, who: '300 listen' },
  { size: 300, listen: false, who: '10 listen, 290 poll' },
]
const [LEAST, , MOST, REMEDY] = FLEETS.map(fleet => fleet.who)
/** Processes that take locks, and listen. */
const WORKING = 10
const HOT = 'hot key: a contender in each of 10 processes'
const COLD = '100 cold keys: each taken every 100 ms'
const WARM_UP = 1000

/** @type {import('../harness/crew.mjs').Crew[]} */
const crews = []

export async function prepare() {
  crews.push(await startCrew('fencepost', WORKING))
  return crews.map(crew => crew.first)
}

/** @param {import('../harness/bench.mjs').Bench} bench */
export async function measure(bench) {
  const [crew] = /** @type {[import('../harness/crew.mjs').Crew]} */ (crews)
  const cells = new Cells()
  for (let round = 0; round < bench.rounds; round++) {
    for (const { size, listen, who } of inTurn(FLEETS, round)) {
      const url = await bench.url('postgres')
      await crew.start({ url })
      const others = await connect(url, size - WORKING, listen)
      const { hot, cold } = await run(bench, crew)
      await Promise.all(others.map(other => other.end()))
      await crew.stop()
      cells.add(HOT, who, hot)
      cells.add(COLD, who, cold)
      bench.progress(round, who, hot)
    }
  }
  const ops = (/** @type {string | undefined} */ who) => cells.get(HOT, who ?? '').ops
  return {
    cells: cells.all(),
    bars: [
      bar(`hand-overs with ${MOST} / with ${LEAST}`, '>=', 0.5, ops(MOST) / ops(LEAST)),
      bar(`the remedy: with ${REMEDY} / with ${LEAST}`, '>=', 0.5, ops(REMEDY) / ops(LEAST)),
    ],
    columns: [
      ...CYCLES,
      { figure: 'cpu', head: 'server CPU, cores', show: fixed(2) },
      { figure: 'each', head: 'ms a hand-over', show: fixed(2) },
    ],
  }
}

/**
 * Connections that stand in for processes. One that listens does so on a channel of its own, as a client does, and hears
 * nothing. To the server that is what an idle process is; a notification wakes the backends of all who listen in the database.
 * @param {string} url
 * @param {number} count
 * @param {boolean} listen
 */
async function connect(url, count, listen) {
  const clients = Array.from({ length: count }, () => new pg.Client({ connectionString: url }))
  for (const client of clients) {
    await client.connect()
    if (listen) await client.query(`listen "fencepost ${randomUUID()}"`)
  }
  return clients
}

/**
 * @param {import('../harness/bench.mjs').Bench} bench
 * @param {import('../harness/crew.mjs').Crew} crew
 */
async function run({ postgres, window }, crew) {
  const cpu = () => serverCpu(Number(postgres.pid))
  const load = { callers: 10, ownKeys: true, pause: 100, warmUp: WARM_UP, window }
  const colds = crew.workers.map((worker, i) => worker.measure({ ...load, prefix: `bench:cold ${i} ` }))
  const contest = crew.contend({ key: 'bench:hot', contenders: 1, warmUp: WARM_UP, window })
  await new Promise(resolve => setTimeout(resolve, WARM_UP))
  const before = cpu()
  await new Promise(resolve => setTimeout(resolve, window))
  const spent = cpu() - before
  const { ops, p50, p95, p99 } = figuresOf(await contest, window)
  const cold = await Promise.all(colds)
  const mean = (/** @type {'p50' | 'p95' | 'p99'} */ figure) =>
    cold.reduce((sum, figures) => sum + figures[figure], 0) / cold.length
  return {
    // The server's CPU goes to the cold keys as well: a thousand cycles a second at most, at each size.
    hot: { ops, p50, p95, p99, cpu: spent / window, each: spent / ((ops * window) / 1000) },
    cold: {
      ops: cold.reduce((sum, figures) => sum + figures.ops, 0),
      p50: mean('p50'),
      p95: mean('p95'),
      p99: mean('p99'),
    },
  }
}
