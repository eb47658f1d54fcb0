import { bar } from '../harness/bars.mjs'
import { Cells } from '../harness/cells.mjs'
import { Crew, figuresOf, startCrew } from '../harness/crew.mjs'
import { inTurn } from '../harness/rounds.mjs'
import { CYCLES, fixed, percent } from '../harness/table.mjs'

export const summary = '50 contenders for one key, in one process and spread over ten'

export const servers = /** @type {const} */ (['redis', 'etcd'])

/** Connections for 50 contenders of pg_advisory_lock, and for ten clients of Fencepost. */
export const settings = { max_connections: '150' }

/** Long enough for each contender to be served often: among few grants one more is unfair. */
export const lengths = { window: 5_000 }

export const leftOut = ['syncguard on PostgreSQL: the npm registry answers 404 for it']

const CONTENDERS = 50
const CROWDS = [1, 10]
const caseName = (/** @type {number} */ processes) =>
  processes === 1 ? 'one process' : `${processes} processes`

const OURS = 'fencepost'
const ADVISORY = 'advisory-waiting'
/** The client's lock, and the one thing in it that waits in line. */
const ETCD = ['etcd-lock-waiting', 'etcd-election']
const PEERS = ['redlock-waiting', 'redis-semaphore-waiting', ...ETCD, ADVISORY]

/** @type {Map<number, import('../harness/crew.mjs').Crew[]>} */
const crews = new Map()

/** Starts each peer in ten processes; the first of them is the one that is alone. */
export async function prepare() {
  const tens = []
  for (const module of [OURS, ...PEERS]) tens.push(await startCrew(module, 10))
  const ones = tens.map(crew => new Crew([crew.first]))
  crews.set(1, ones).set(10, tens)
  return ones.map(crew => crew.first)
}

/** @param {import('../harness/bench.mjs').Bench} bench */
export async function measure(bench) {
  const cells = new Cells()
  for (let round = 0; round < bench.rounds; round++) {
    for (const processes of CROWDS) {
      for (const crew of inTurn(crews.get(processes) ?? [], round)) {
        const contenders = CONTENDERS / processes
        await crew.start({ url: await bench.url(crew.first.needs), waiters: contenders })
        const load = { key: 'bench:hot', contenders, warmUp: 500, window: bench.window }
        const { through, grants: _, ...figures } = figuresOf(await crew.contend(load), bench.window)
        await crew.stop()
        // Every grant of another peer went through its server.
        const all = crew.first.module === OURS ? { ...figures, through } : figures
        cells.add(caseName(processes), crew.name, all)
        bench.progress(round, `${caseName(processes)}, ${crew.name}`, figures)
      }
    }
  }
  return { cells: cells.all(), bars: judge(cells), columns: COLUMNS }
}

const COLUMNS = [
  ...CYCLES,
  { figure: 'unfairness', head: 'most / least served', show: fixed(2) },
  { figure: 'through', head: 'through the database', show: percent },
].map(column => (column.figure === 'ops' ? { ...column, head: 'grants/s' } : column))

/** @param {Cells} cells */
function judge(cells) {
  const names = new Map((crews.get(1) ?? []).map(crew => [crew.first.module, crew.name]))
  const cell = (/** @type {number} */ processes, /** @type {string} */ module) =>
    cells.get(caseName(processes), names.get(module) ?? module)
  const ratio = (/** @type {number} */ processes, /** @type {string[]} */ others) =>
    cell(processes, OURS).ops / Math.max(...others.map(other => cell(processes, other).ops))
  return [
    bar('one process: grants / grants of the best peer', '>=', 3, ratio(1, PEERS)),
    bar('ten processes: grants / grants of etcd3', '>=', 1, ratio(10, ETCD)),
    bar('ten processes: grants / grants of pg_advisory_lock', '>=', 0.3, ratio(10, [ADVISORY])),
    bar('one process: most / least served', '<=', 1.1, cell(1, OURS).unfairness),
    bar('ten processes: most / least served', '<=', 1.1, cell(10, OURS).unfairness),
  ]
}
