import { bar } from '../harness/bars.mjs'
import { Cells } from '../harness/cells.mjs'
import { startCrew } from '../harness/crew.mjs'
import { percentile } from '../harness/percentiles.mjs'
import { inTurn } from '../harness/rounds.mjs'
import { mostAtOnce } from '../harness/sections.mjs'
import { CYCLES, fixed } from '../harness/table.mjs'

export const summary = '64 callers for the permits of one semaphore'

export const servers = /** @type {const} */ (['redis'])

export const leftOut = []

const CALLERS = 64
const OURS = 'fencepost'
const PEER = 'redis-semaphore-permits'
const CASES = [5, 64].flatMap(permits => [0, 10].map(section => ({ permits, section })))

/** @type {import('../harness/crew.mjs').Crew[]} */
const crews = []

export async function prepare() {
  for (const module of [OURS, PEER]) crews.push(await startCrew(module, 1))
  return crews.map(crew => crew.first)
}

/** @param {{ permits: number, section: number }} one */
const caseName = ({ permits, section }) =>
  `${permits} permits, ${section === 0 ? 'given back at once' : `sections of ${section} ms`}`

/** @param {import('../harness/bench.mjs').Bench} bench */
export async function measure(bench) {
  const cells = new Cells()
  let excess = 0
  for (let round = 0; round < bench.rounds; round++) {
    for (const one of CASES) {
      for (const crew of inTurn(crews, round)) {
        const figures = await run(bench, crew, one)
        if (crew.first.module === OURS) excess = Math.max(excess, figures.together - one.permits)
        cells.add(caseName(one), crew.name, figures)
        bench.progress(round, `${caseName(one)}, ${crew.name}`, figures)
      }
    }
  }
  return { cells: cells.all(), bars: judge(cells, excess), columns: COLUMNS }
}

const COLUMNS = [
  ...CYCLES.map(column => (column.figure === 'ops' ? { ...column, head: 'grants/s' } : column)),
  { figure: 'longest', head: 'longest wait ms', show: fixed(1) },
  { figure: 'together', head: 'most at once', show: fixed(0) },
]

/**
 * @param {import('../harness/bench.mjs').Bench} bench
 * @param {import('../harness/crew.mjs').Crew} crew
 * @param {{ permits: number, section: number }} one
 */
async function run(bench, crew, { permits, section }) {
  await crew.start({ url: await bench.url(crew.first.needs) })
  const kinds = [{ name: 'callers', count: CALLERS, keys: ['bench:permits'], terms: { capacity: permits } }]
  const had = await crew.work({ kinds, section, warmUp: 500, window: bench.window })
  await crew.stop()
  const sorted = Float64Array.from(had.flatMap(({ waits }) => [...waits])).sort()
  const grants = had.reduce((sum, { from }) => sum + from.length, 0)
  return {
    ops: (grants / bench.window) * 1000,
    p50: percentile(sorted, 0.5),
    p95: percentile(sorted, 0.95),
    p99: percentile(sorted, 0.99),
    longest: sorted.at(-1) ?? Number.NaN,
    together: mostAtOnce([{ had, weight: 1 }]),
  }
}

/**
 * @param {Cells} cells
 * @param {number} excess by which there were ever more at once than permits
 */
function judge(cells, excess) {
  const [ours, peer] = crews.map(crew => crew.name)
  return [
    ...CASES.map(one => {
      const of = (/** @type {string | undefined} */ who) => cells.get(caseName(one), who ?? '').ops
      return bar(`${caseName(one)}: grants / redis-semaphore's`, '>=', 1, of(ours) / of(peer))
    }),
    bar('more at once than there are permits, by the clocks of the callers', '<=', 0, Math.max(0, excess)),
  ]
}
