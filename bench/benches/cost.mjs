import { setTimeout as pause } from 'node:timers/promises'
import { COUNTING, openAccount, spent } from '../harness/account.mjs'
import { Cells } from '../harness/cells.mjs'
import { Crew, figuresOf, startCrew } from '../harness/crew.mjs'
import { fixed } from '../harness/table.mjs'

export const summary = 'what a lock costs the server: log, fsyncs, transactions, statements, CPU'

export const servers = /** @type {const} */ ([])

export const settings = COUNTING

export const lengths = { rounds: 3, window: 10_000 }

export const leftOut = []

/** Locks are held this much longer than the rest is measured. */
const LONGER = 6

/** @param {import('../harness/bench.mjs').Bench} bench */
export const lasts = ({ rounds, window }) =>
  `${rounds} rounds, ${window / 1000} s each, locks held ${(window / 1000) * LONGER} s; figures are medians over the rounds`

const PAIR = 'acquire + release'
const PASSED = 'hand-over'
const HELD = 'lock-hour held, ttl 30 s'

/** A backend that has been idle for ten seconds has told all it knows. */
const TOLD = 10_500

/** @type {Crew[]} */
const crews = []

export async function prepare() {
  const ten = await startCrew('fencepost', 10)
  crews.push(new Crew([ten.first]), ten)
  return [ten.first]
}

/** @param {import('../harness/bench.mjs').Bench} bench */
export async function measure(bench) {
  const [one, ten] = /** @type {[Crew, Crew]} */ (crews)
  const cells = new Cells()
  for (let round = 0; round < bench.rounds; round++) {
    for (const [what, who, crew, work] of works(bench, one, ten)) {
      const figures = await account(bench, crew, work)
      cells.add(what, who, figures)
      bench.say(
        round,
        `${what}, ${who}: ${Math.round(figures.wal)} bytes of log, ${figures.cpu.toFixed(3)} ms`,
      )
    }
  }
  return { cells: cells.all(), bars: [], columns: COLUMNS }
}

/**
 * @typedef {object} Work
 * @property {() => Promise<unknown>} [before] not part of the bill
 * @property {() => Promise<number>} work answers among how many the bill is shared
 * @property {() => Promise<unknown>} [after]
 * @property {boolean} [isSlow] a backend has told of each of its statements before it gets the next
 */

/**
 * @param {import('../harness/bench.mjs').Bench} bench
 * @param {Crew} one
 * @param {Crew} ten
 * @returns {[string, string, Crew, Work][]}
 */
function works({ window }, one, ten) {
  const cycles = (/** @type {number} */ callers) => ({
    before: () => one.first.measure({ callers, warmUp: 0, window: 500 }),
    work: async () => (await one.first.measure({ callers, warmUp: 0, window })).cycles,
  })
  const contest = (/** @type {Crew} */ crew) => {
    const load = { key: 'bench:hot', contenders: 50 / crew.workers.length, warmUp: 0 }
    return {
      before: () => crew.contend({ ...load, window: 500 }),
      work: async () => figuresOf(await crew.contend({ ...load, window }), window).grants,
    }
  }
  const hold = (/** @type {number} */ locks) => ({
    isSlow: true,
    before: () => one.first.hold({ locks }),
    work: async () => {
      await pause(window * LONGER)
      return (Math.max(locks, 1) * window * LONGER) / 3_600_000
    },
    after: () => one.first.letGo(),
  })
  return [
    [PAIR, '1 caller', one, cycles(1)],
    [PAIR, '64 callers', one, cycles(64)],
    [PAIR, '1,000 callers', one, cycles(1000)],
    [PASSED, '50 contenders in one process', one, contest(one)],
    [PASSED, '50 contenders in ten processes', ten, contest(ten)],
    [HELD, 'none: the server for an hour', one, hold(0)],
    [HELD, '1 lock in one process', one, hold(1)],
    [HELD, '1,000 locks in one process', one, hold(1000)],
  ]
}

/**
 * @param {import('../harness/bench.mjs').Bench} bench
 * @param {Crew} crew
 * @param {Work} work
 */
async function account(bench, crew, { before, work, after, isSlow = false }) {
  const url = await bench.url('postgres')
  await crew.start({ url })
  const account = await openAccount(bench.postgres, url)
  try {
    await before?.()
    // What is left to clear away of the other cells and in new catalogs costs more than locks that are held.
    if (isSlow) await account.autovacuum('off')
    await pause(TOLD)
    const first = await account.read()
    const count = await work()
    const last = await account.read()
    // What is done while we wait for this figure, a heartbeat or two, is in it: not among six of them.
    if (!isSlow) await pause(TOLD)
    const { fsyncs } = isSlow ? last : await account.read()
    await after?.()
    await account.autovacuum('on')
    return spent(first, { ...last, fsyncs }, count)
  } finally {
    await account.end()
    await crew.stop()
  }
}

const COLUMNS = [
  { figure: 'wal', head: 'bytes of log', show: fixed(0) },
  { figure: 'fsyncs', head: 'fsyncs', show: fixed(3) },
  { figure: 'xids', head: 'transaction ids', show: fixed(3) },
  { figure: 'statements', head: 'statements', show: fixed(3) },
  { figure: 'cpu', head: 'server CPU ms', show: fixed(3) },
]
