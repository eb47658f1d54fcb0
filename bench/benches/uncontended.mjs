import { bar } from '../harness/bars.mjs'
import { Cells } from '../harness/cells.mjs'
import { startPeer } from '../harness/peer.mjs'
import { inTurn } from '../harness/rounds.mjs'

export const summary =
  'acquire + release of distinct keys by 1, 64 and 1,000 concurrent callers in one process'

/** The servers that it compares with. */
export const servers = /** @type {const} */ (['redis', 'etcd'])

/** Whose figures a bar judges: they get the longer windows. */
const JUDGED = ['fencepost', 'redis', 'lease-row']
const OTHERS = [
  ...['redlock', 'redis-semaphore', 'etcd-lock', 'etcd-lease'],
  ...['advisory-session', 'advisory-transaction'],
]
const FLOOR = 'raw-floor'

const CALLERS = [1, 64, 1000]
const caseName = (/** @type {number} */ callers) =>
  `${callers.toLocaleString('en')} caller${callers === 1 ? '' : 's'}`

export const leftOut = ['syncguard on PostgreSQL: the npm registry answers 404 for it']

/** @type {import('../harness/peer.mjs').Worker[]} */
const peers = []

/** Starts the peers, each in a process of its own. */
export async function prepare() {
  for (const module of [...JUDGED, FLOOR, ...OTHERS]) peers.push(await startPeer(module))
  return peers
}

/** @param {import('../harness/bench.mjs').Bench} bench */
export async function measure(bench) {
  const cells = new Cells()
  for (let round = 0; round < bench.rounds; round++) {
    for (const callers of CALLERS) {
      for (const peer of inTurn(peers, round)) {
        // The floor is the latency of two statements in turn: with more callers it would be something else.
        if (peer.module === FLOOR && callers > 1) continue
        const load = { callers, ...times(bench.window, peer.module) }
        const { cycles: _, ...figures } = await peer.run({ url: await bench.url(peer.needs) }, load)
        cells.add(caseName(callers), peer.name, figures)
        bench.progress(round, `${caseName(callers)}, ${peer.name}`, figures)
      }
    }
  }
  return { cells: cells.all(), bars: judge(cells) }
}

/**
 * @param {number} window
 * @param {string} module
 */
function times(window, module) {
  return OTHERS.includes(module) ? { warmUp: 200, window: window * 0.35 } : { warmUp: 300, window }
}

/** @param {Cells} cells */
function judge(cells) {
  const name = new Map(peers.map(peer => [peer.module, peer.name]))
  const cell = (/** @type {number} */ callers, /** @type {string} */ module) =>
    cells.get(caseName(callers), name.get(module) ?? module)
  const ratio = (/** @type {number} */ callers, /** @type {string} */ other) =>
    cell(callers, 'fencepost').ops / cell(callers, other).ops
  return [
    bar('1,000 callers: ops / ops of redis', '>=', 1, ratio(1000, 'redis')),
    bar('1,000 callers: ops / ops of the lease row', '>=', 10, ratio(1000, 'lease-row')),
    bar('64 callers: ops / ops of redis', '>=', 0.6, ratio(64, 'redis')),
    bar(
      '1 caller: median / median of the raw floor',
      '<=',
      1.3,
      cell(1, 'fencepost').p50 / cell(1, FLOOR).p50,
    ),
  ]
}
