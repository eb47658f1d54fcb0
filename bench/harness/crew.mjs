import { monotonic, now } from './clock.mjs'
import { startPeer } from './peer.mjs'
import { percentile } from './percentiles.mjs'

/** @typedef {import('./contest.mjs').Outcome & { passed: number }} Share */

/** Milliseconds until the processes of a crew have all been told. */
const HEAD_START = 50

/**
 * One peer in several processes, as a service with replicas has it. Its description is the peer's.
 * @param {string} module
 * @param {number} size
 */
export async function startCrew(module, size) {
  const workers = await Promise.all(Array.from({ length: size }, () => startPeer(module)))
  return new Crew(workers)
}

export class Crew {
  /** @param {readonly import('./peer.mjs').Worker[]} workers at least one */
  constructor(workers) {
    this.workers = workers
    const [first] = workers
    if (!first) throw new Error('a crew wants somebody')
    this.first = first
  }

  get name() {
    return this.first.name
  }

  /** The first of them alone, for it makes the tables. @param {import('./peer.mjs').Context} context */
  async start(context) {
    const [first, ...others] = this.workers
    await first?.start(context)
    await Promise.all(others.map(worker => worker.start(context)))
  }

  /** Once nobody holds anything: each looks whether something was left behind. */
  async stop() {
    for (const worker of this.workers) await worker.stop()
  }

  /**
   * Lets all of them contend for one key within one window.
   * @param {{ key: string, contenders: number, warmUp: number, window: number }} load `contenders` in each process
   * @returns {Promise<Share[]>}
   */
  async contend({ key, contenders, warmUp, window }) {
    const opens = now() + HEAD_START + warmUp
    const terms = { key, contenders, opens, closes: opens + window }
    return await Promise.all(this.workers.map(worker => worker.contend(terms)))
  }

  /**
   * Lets callers of several kinds work for one window, those of each kind spread over the processes.
   * @param {{ kinds: readonly import('./sections.mjs').Kind[], section: number, warmUp: number, window: number }} load
   * @returns {Promise<import('./sections.mjs').Had[]>} of each kind in each process
   */
  async work({ kinds, section, warmUp, window }) {
    const opens = monotonic() + HEAD_START + warmUp
    const shares = this.workers.map((worker, i) => {
      const ours = kinds.map(kind => ({ ...kind, count: share(kind.count, i, this.workers.length) }))
      return worker.sections({ kinds: ours, section, opens, closes: opens + window })
    })
    return (await Promise.all(shares)).flat()
  }

  /**
   * Lets all of them contend until they had so many grants together, or the time is up.
   * @param {{ key: string, contenders: number, grants: number, atMost: number }} load `atMost` milliseconds
   * @returns {Promise<Share[]>}
   */
  async contendFor({ key, contenders, grants, atMost }) {
    const opens = now() + HEAD_START
    const terms = { key, contenders, opens, closes: opens + atMost }
    const shares = Promise.all(this.workers.map(worker => worker.contend(terms)))
    const isDone = async () => {
      const tallies = await Promise.all(this.workers.map(worker => worker.tally()))
      return tallies.reduce((sum, tally) => sum + tally, 0) >= grants || now() >= opens + atMost
    }
    const watching = (async () => {
      // Every 50 ms: asking costs the processes something, and a few grants too many do no harm.
      while (!(await isDone())) await new Promise(resolve => setTimeout(resolve, 50))
      await Promise.all(this.workers.map(worker => worker.finish()))
    })()
    const [all] = await Promise.all([shares, watching])
    return all
  }
}

/**
 * The figures of a contest, over all who took part; `grants` are all there were, inside the window or not.
 * @param {readonly Share[]} shares
 * @param {number} window milliseconds
 */
export function figuresOf(shares, window) {
  const served = shares.flatMap(share => share.served)
  const waits = shares.flatMap(({ asked, granted }) => [...granted].map((at, i) => at - (asked[i] ?? 0)))
  const sorted = Float64Array.from(waits).sort()
  const grants = sum(shares.map(share => share.grants))
  return {
    ops: (sorted.length / window) * 1000,
    p50: percentile(sorted, 0.5),
    p95: percentile(sorted, 0.95),
    p99: percentile(sorted, 0.99),
    unfairness: unfairness(served),
    grants,
    through: (grants - sum(shares.map(share => share.passed))) / grants,
  }
}

/**
 * How many of so many the i-th gets, where they are dealt out.
 * @param {number} count
 * @param {number} i
 * @param {number} among
 */
const share = (count, i, among) => Math.ceil((count - i) / among)

/** How many times more the most served got than the least served. @param {readonly number[]} served */
export const unfairness = served => Math.max(...served) / Math.min(...served)

/** @param {readonly number[]} values */
const sum = values => values.reduce((total, value) => total + value, 0)
