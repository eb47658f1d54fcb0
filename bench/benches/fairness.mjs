import { startAudit } from '../harness/audit.mjs'
import { bar } from '../harness/bars.mjs'
import { Cells } from '../harness/cells.mjs'
import { startCrew, unfairness } from '../harness/crew.mjs'
import { inversions } from '../harness/inversions.mjs'
import { inTurn } from '../harness/rounds.mjs'
import { CYCLES, fixed } from '../harness/table.mjs'

export const summary = 'ten processes for one key: are they granted it in the order in which they came?'

export const servers = /** @type {const} */ (['redis', 'etcd'])

export const lengths = { rounds: 1, window: 60_000 }

export const leftOut = ['redis-semaphore: as redlock, it asks again after a pause, and has no line']

/** @param {import('../harness/bench.mjs').Bench} bench */
export const lasts = ({ rounds, grants, window }) =>
  `${rounds} rounds of ${grants.toLocaleString('en')} grants; a peer gets at most ${window / 1000} s`

const OURS = 'fencepost'
const PEERS = ['redlock-waiting', 'etcd-lock-waiting', 'etcd-election', 'advisory-waiting']
const CLIENTS = 10
const CASE = 'ten processes, a contender in each'
/** Where grants are passed on inside a process. */
const CROWDED = 'ten processes, five contenders in each'

/** @type {import('../harness/crew.mjs').Crew[]} */
const crews = []

export async function prepare() {
  for (const module of [OURS, ...PEERS]) crews.push(await startCrew(module, CLIENTS))
  return crews.map(crew => crew.first)
}

/** @param {import('../harness/bench.mjs').Bench} bench */
export async function measure(bench) {
  const cells = new Cells()
  for (let round = 0; round < bench.rounds; round++) {
    for (const crew of inTurn(crews, round)) {
      const figures = await run(bench, crew, 1)
      cells.add(CASE, crew.name, figures)
      bench.progress(round, crew.name, figures)
    }
    for (const crew of crews.filter(({ first }) => first.module === OURS)) {
      const figures = await run(bench, crew, 5)
      cells.add(CROWDED, crew.name, figures)
      bench.progress(round, `${crew.name}, ${CROWDED}`, figures)
    }
  }
  const [ours, crowded] = [CASE, CROWDED].map(what => cells.get(what, crews[0]?.name ?? OURS))
  return {
    cells: cells.all(),
    bars: [
      bar('grants', '>=', bench.grants, ours?.grants),
      bar('inversions of tokens against tickets', '<=', 0, ours?.inversions),
      bar('most / least served', '<=', 1.02, ours?.unfairness),
      bar('five in each: inversions of tokens against tickets', '<=', 0, crowded?.inversions),
    ],
    columns: COLUMNS,
  }
}

/**
 * Each contender asks again as soon as it has released.
 * @param {import('../harness/bench.mjs').Bench} bench
 * @param {import('../harness/crew.mjs').Crew} crew
 * @param {number} contenders in each process
 */
async function run(bench, crew, contenders) {
  const url = await bench.url(crew.first.needs)
  await crew.start({ url, waiters: contenders })
  const audit = crew.first.module === OURS ? await startAudit(url) : undefined
  // Ours has to come to its number, however long that takes.
  const atMost = audit ? 3_600_000 : bench.window
  const load = { key: 'bench:fair', contenders, grants: bench.grants, atMost }
  const shares = await crew.contendFor(load)
  const tickets = await audit?.read(bench.grants)
  await audit?.end()
  await crew.stop()
  return { ...figuresOf(shares, bench.grants), ...(tickets && byTicket(tickets)) }
}

/**
 * By the clock that the processes share: the first so many grants, in the order in which they came. Somebody is overtaken
 * by each who asked later and was granted earlier. Two calls that are under way at the same time may arrive in either
 * order, so a few of these say nothing; the order of tickets is what the line promises.
 * @param {readonly import('../harness/crew.mjs').Share[]} shares
 * @param {number} most
 */
function figuresOf(shares, most) {
  const all = shares.flatMap(({ asked, granted }, who) =>
    [...granted].map((at, i) => ({ who, asked: asked[i] ?? Number.NaN, at })),
  )
  const grants = all.sort((a, b) => a.at - b.at).slice(0, most)
  const served = shares.map((_, who) => grants.filter(grant => grant.who === who).length)
  const seconds = ((grants.at(-1)?.at ?? Number.NaN) - (grants[0]?.at ?? Number.NaN)) / 1000
  return {
    ops: grants.length / seconds,
    grants: grants.length,
    unfairness: unfairness(served),
    overtaken: inversions(grants.map(grant => grant.asked)),
  }
}

/**
 * Those that waited in line must hold in the order of their tickets. Who found the key free has no ticket, and nobody
 * was in line then: a ticket keeps its key's row.
 * @param {readonly (number | null)[]} tickets by the order of tokens
 */
function byTicket(tickets) {
  const inLine = tickets.filter(ticket => ticket !== null)
  return { inversions: inversions(inLine), inLine: inLine.length }
}

const whole = fixed(0)
const COLUMNS = [
  ...CYCLES.filter(column => column.figure === 'ops'),
  { figure: 'grants', head: 'grants', show: whole },
  { figure: 'unfairness', head: 'most / least served process', show: fixed(3) },
  { figure: 'inLine', head: 'with a ticket', show: whole },
  { figure: 'inversions', head: 'inversions of tickets', show: whole },
  { figure: 'overtaken', head: 'of the time of asking', show: whole },
]
