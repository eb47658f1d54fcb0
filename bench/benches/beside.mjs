import { Cells } from '../harness/cells.mjs'
import { now } from '../harness/clock.mjs'
import { startPeer } from '../harness/peer.mjs'
import { CYCLES, fixed } from '../harness/table.mjs'

export const summary =
  'acquire + release of cold keys, alone and while others of the same process fight for a hot one'

export const servers = /** @type {const} */ ([])

export const leftOut = []

const CALLERS = 8
/** In the process that is measured, and in another one. */
const CONTENDERS = [50, 10]
const CASE = `${CALLERS} callers, cold keys`
const RATIO = 'how many times slower'
const ALONE = 'alone'
const BESIDE = `beside ${CONTENDERS.join(' + ')} contenders`
const WARM_UP = 500

/** @type {import('../harness/peer.mjs').Worker[]} */
const peers = []

export async function prepare() {
  for (const _ of CONTENDERS) peers.push(await startPeer('fencepost'))
  return peers.slice(0, 1)
}

/** @param {import('../harness/bench.mjs').Bench} bench */
export async function measure(bench) {
  const cells = new Cells()
  for (let round = 0; round < bench.rounds; round++) {
    for (const who of round % 2 === 0 ? [ALONE, BESIDE] : [BESIDE, ALONE]) {
      const figures = await run(bench, who === BESIDE ? CONTENDERS : [])
      cells.add(CASE, who, figures)
      bench.progress(round, who, figures)
    }
  }
  const [alone, beside] = [cells.get(CASE, ALONE), cells.get(CASE, BESIDE)]
  cells.add(RATIO, 'beside / alone', { times50: beside.p50 / alone.p50, times99: beside.p99 / alone.p99 })
  return { cells: cells.all(), bars: [], columns: COLUMNS }
}

const COLUMNS = [
  ...CYCLES,
  { figure: 'hot', head: 'grants/s of the hot key', show: fixed(0) },
  { figure: 'times50', head: 'p50', show: fixed(2) },
  { figure: 'times99', head: 'p99', show: fixed(2) },
]

/**
 * @param {import('../harness/bench.mjs').Bench} bench
 * @param {number[]} contenders by process
 */
async function run(bench, contenders) {
  const context = { url: await bench.url('postgres') }
  for (const peer of peers) await peer.start(context)
  try {
    const opens = now() + WARM_UP
    const terms = { key: 'bench:hot', opens, closes: opens + bench.window }
    const contest = Promise.all(
      contenders.map((count, i) => peers[i]?.contend({ ...terms, contenders: count })),
    )
    const load = { callers: CALLERS, warmUp: WARM_UP, window: bench.window, prefix: 'bench:cold ' }
    const { cycles: _, ...figures } = await /** @type {any} */ (peers[0]).measure(load)
    const granted = (await contest).reduce((sum, share) => sum + (share?.granted.length ?? 0), 0)
    return { ...figures, ...(contenders.length > 0 && { hot: (granted / bench.window) * 1000 }) }
  } finally {
    for (const peer of peers) await peer.stop()
  }
}
