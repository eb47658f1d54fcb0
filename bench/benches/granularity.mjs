import { COUNTING, openAccount, spent } from '../harness/account.mjs'
import { bar } from '../harness/bars.mjs'
import { Cells } from '../harness/cells.mjs'
import { startCrew } from '../harness/crew.mjs'
import { percentile } from '../harness/percentiles.mjs'
import { inTurn } from '../harness/rounds.mjs'
import { CYCLES, fixed } from '../harness/table.mjs'

export const summary = '100 workers, each changing a row for 5 ms under one key, a key a table, a key a row'

export const servers = /** @type {const} */ ([])

export const settings = COUNTING

export const lengths = { rounds: 3, window: 5_000 }

/** @type {readonly string[]} */
export const leftOut = []

const WORKERS = 100
/** Milliseconds. */
const SECTION = 5
const TABLES = 10
const ROWS = 1_000
const CASE = `${WORKERS} workers, ${TABLES} tables of ${ROWS.toLocaleString('en')} rows`
const WAYS = [
  { name: 'one key', keys: ['bench:all'] },
  { name: 'a key a table', keys: named(TABLES) },
  { name: 'a key a row', keys: named(TABLES * ROWS) },
]
const PROCESSES = [1, 4]

/** @param {number} count */
function named(count) {
  return Array.from({ length: count }, (_, i) => `bench:${i}`)
}

/** @param {number} processes */
const caseName = processes => `${CASE}, ${processes === 1 ? 'one process' : `${processes} processes`}`

/** @type {import('../harness/crew.mjs').Crew[]} */
const crews = []

export async function prepare() {
  for (const processes of PROCESSES) crews.push(await startCrew('fencepost', processes))
  return crews.slice(0, 1).map(crew => crew.first)
}

/** @param {import('../harness/bench.mjs').Bench} bench */
export async function measure(bench) {
  const cells = new Cells()
  for (let round = 0; round < bench.rounds; round++) {
    for (const crew of crews) {
      for (const way of inTurn(WAYS, round)) {
        const figures = await run(bench, crew, way.keys)
        cells.add(caseName(crew.workers.length), way.name, figures)
        bench.progress(round, `${way.name}, ${crew.workers.length}`, figures)
      }
    }
  }
  const [whole, , row] = WAYS.map(way => way.name)
  for (const processes of PROCESSES) {
    const of = (/** @type {string | undefined} */ who) => cells.get(caseName(processes), who ?? '')
    for (const { name } of WAYS)
      cells.add(RATIO, `${name}, ${processes}`, { times: of(name).ops / of(whole).ops })
  }
  const ratio = (/** @type {number} */ processes) => cells.get(RATIO, `${row}, ${processes}`).times
  return {
    cells: cells.all(),
    bars: [
      bar('a key a row: sections / those under one key', '>=', 15, ratio(1)),
      bar(`the same over ${PROCESSES[1]} processes`, '>=', 15, ratio(PROCESSES[1] ?? 0)),
    ],
    columns: COLUMNS,
  }
}

const RATIO = 'sections / those under one key, by processes'

const COLUMNS = [
  ...CYCLES.map(column => (column.figure === 'ops' ? { ...column, head: 'sections/s' } : column)),
  { figure: 'longest', head: 'longest wait ms', show: fixed(0) },
  { figure: 'statements', head: 'statements a section', show: fixed(2) },
  { figure: 'cpu', head: 'server CPU ms', show: fixed(2) },
  { figure: 'wal', head: 'bytes of log', show: fixed(0) },
  { figure: 'times', head: '', show: fixed(1) },
]

/**
 * What is spent is counted from the first request to the last release, and shared among all sections.
 * @param {import('../harness/bench.mjs').Bench} bench
 * @param {import('../harness/crew.mjs').Crew} crew
 * @param {readonly string[]} keys
 */
async function run(bench, crew, keys) {
  const url = await bench.url('postgres')
  await crew.start({ url })
  const account = await openAccount(bench.postgres, url)
  const before = await account.read()
  const kinds = [{ name: 'workers', count: WORKERS, keys }]
  // No warm-up: what is spent in it would be counted, and its sections would not.
  const had = await crew.work({ kinds, section: SECTION, warmUp: 0, window: bench.window })
  const sections = had.reduce((sum, { from }) => sum + from.length, 0)
  const { cpu, wal, statements } = spent(before, await account.read(), sections)
  await account.end()
  await crew.stop()
  const sorted = Float64Array.from(had.flatMap(({ waits }) => [...waits])).sort()
  return {
    ops: (sections / bench.window) * 1000,
    p50: percentile(sorted, 0.5),
    p95: percentile(sorted, 0.95),
    p99: percentile(sorted, 0.99),
    longest: sorted.at(-1) ?? Number.NaN,
    statements,
    cpu,
    wal,
  }
}
