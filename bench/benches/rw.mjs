import { bar } from '../harness/bars.mjs'
import { Cells } from '../harness/cells.mjs'
import { startCrew } from '../harness/crew.mjs'
import { inTurn } from '../harness/rounds.mjs'
import { mostAtOnce } from '../harness/sections.mjs'
import { fixed } from '../harness/table.mjs'

export const summary = 'readers and writers of one key, each in a closed loop of 10 ms sections'

export const servers = /** @type {const} */ ([])

/** Connections for forty callers, each with one of its own, and for the clients of four processes. */
export const settings = { max_connections: '150' }

export const lengths = { rounds: 1, window: 3_000 }

/** @type {readonly string[]} */
export const leftOut = []

/** Milliseconds. */
const SECTION = 10
/** Milliseconds that a section may take with all that belongs to it. */
const TURN = 12
const PROCESSES = 4
const GRID = [1, 3, 10, 20]
const EVERY = Array.from({ length: 20 }, (_, i) => i + 1)
/** Ten callers of one kind. */
const ALONE = [
  { readers: 10, writers: 0 },
  { readers: 0, writers: 10 },
]
const OURS = 'fencepost'
const PEERS = ['advisory-shared', 'row-share']

/** @typedef {{ readers: number, writers: number }} Mix */

/** @type {import('../harness/crew.mjs').Crew[]} */
const crews = []

export async function prepare() {
  for (const module of [OURS, ...PEERS]) crews.push(await startCrew(module, PROCESSES))
  return crews.map(crew => crew.first)
}

/** @param {import('../harness/bench.mjs').Bench} bench */
export const lasts = ({ rounds, window, all }) =>
  `${rounds} rounds of ${mixes(all).length} mixes over ${PROCESSES} processes, ${window / 1000} s each`

/** @param {boolean} all */
function mixes(all) {
  const counts = all ? EVERY : GRID
  return [...ALONE, ...counts.flatMap(readers => counts.map(writers => ({ readers, writers })))]
}

/** @param {Mix} mix */
const caseName = ({ readers, writers }) => `${readers} readers, ${writers} writers`

/** @param {import('../harness/bench.mjs').Bench} bench */
export async function measure(bench) {
  const cells = new Cells()
  let broken = 0
  for (let round = 0; round < bench.rounds; round++) {
    for (const mix of mixes(bench.all)) {
      for (const crew of inTurn(crews, round)) {
        const { together, ...figures } = await run(bench, crew, mix)
        if (crew.first.module === OURS) broken = Math.max(broken, together)
        cells.add(caseName(mix), crew.name, figures)
        bench.progress(round, `${caseName(mix)}, ${crew.name}`, figures)
      }
    }
  }
  return { cells: cells.all(), bars: judge(cells, mixes(bench.all), broken), columns: COLUMNS }
}

const COLUMNS = [
  { figure: 'reads', head: 'reads/s', show: fixed(0) },
  { figure: 'writes', head: 'writes/s', show: fixed(0) },
  { figure: 'reader', head: 'longest wait of a reader, ms', show: fixed(0) },
  { figure: 'writer', head: 'of a writer', show: fixed(0) },
  { figure: 'turns', head: `of anybody / (callers x ${TURN} ms)`, show: fixed(2) },
]

/**
 * @param {import('../harness/bench.mjs').Bench} bench
 * @param {import('../harness/crew.mjs').Crew} crew
 * @param {Mix} mix
 */
async function run(bench, crew, { readers, writers }) {
  const waiters = Math.ceil(readers / PROCESSES) + Math.ceil(writers / PROCESSES)
  await crew.start({ url: await bench.url('postgres'), waiters })
  const keys = ['bench:rw']
  const kinds = [
    { name: 'readers', count: readers, keys, terms: { mode: /** @type {const} */ ('shared') } },
    { name: 'writers', count: writers, keys },
  ]
  const had = await crew.work({ kinds, section: SECTION, warmUp: 300, window: bench.window })
  await crew.stop()
  const of = (/** @type {string} */ kind) => had.filter(({ name }) => name === kind)
  const [reading, writing] = [of('readers'), of('writers')]
  const rate = (/** @type {typeof had} */ some) =>
    (some.reduce((sum, { from }) => sum + from.length, 0) / bench.window) * 1000
  const longest = (/** @type {typeof had} */ some) =>
    some.reduce((most, { waits }) => waits.reduce((one, other) => Math.max(one, other), most), 0)
  return {
    ops: rate(had),
    ...(readers > 0 && { reads: rate(reading), reader: longest(reading) }),
    ...(writers > 0 && { writes: rate(writing), writer: longest(writing) }),
    turns: longest(had) / ((readers + writers) * TURN),
    // A writer fills what all readers together would.
    together: mostAtOnce([
      { had: reading, weight: 1 / Math.max(1, readers) },
      { had: writing, weight: 1 },
    ]),
  }
}

/**
 * @param {Cells} cells
 * @param {readonly Mix[]} all
 * @param {number} together 1 is a writer, or all readers
 */
function judge(cells, all, together) {
  const of = (/** @type {Mix} */ mix) => cells.get(caseName(mix), crews[0]?.name ?? '')
  const mixed = all.filter(({ readers, writers }) => readers > 0 && writers > 0).map(of)
  const [reading, writing] = ALONE.map(of)
  return [
    bar(
      `the worst mix: longest wait of anybody / (callers x ${TURN} ms)`,
      '<=',
      1.5,
      Math.max(...mixed.map(cell => cell.turns)),
    ),
    bar(
      'ten readers: sections / those of ten exclusive callers',
      '>=',
      5,
      (reading?.ops ?? 0) / (writing?.ops ?? 0),
    ),
    // The least that a reader beside a writer makes is 1.05.
    bar('a writer beside anybody, by the clocks of the callers', '<=', 1.01, together),
  ]
}
