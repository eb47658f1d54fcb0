import { percentile } from './percentiles.mjs'

/**
 * One measurement: what the callers completed inside the window.
 * @typedef {{ ops: number, p50: number, p95: number, p99: number, cycles: number }} Figures cycles a second, milliseconds, and
 *   how many cycles there were in all, before the window and in the drain as well
 */

/** A peer so slow that not every caller got a turn in the window is given up to this long, in milliseconds. */
const PATIENCE = 10_000

/**
 * @typedef {object} Load
 * @property {number} callers
 * @property {number} warmUp milliseconds, as is `window`
 * @property {number} window
 * @property {string} [prefix] of the keys, where several processes use one server
 * @property {boolean} [ownKeys] each caller always takes the same key, its own; default: keys never used before
 * @property {number} [pause] milliseconds between the cycles of a caller; default: none
 */

/**
 * Runs callers that each cycle, as a rule without a pause and on a key that was never used before, and measures the
 * steady state: cycles that end inside the window count, those of the warm-up and of the drain do not.
 * @param {(key: string) => Promise<unknown>} cycle acquires and releases; rejects unless the lock was granted
 * @param {Load} load
 * @returns {Promise<Figures>}
 */
export async function measure(cycle, { callers, warmUp, window, prefix = 'bench:', ownKeys = false, pause }) {
  /** @type {number[]} */
  const latencies = []
  const opens = performance.now() + warmUp
  let closed = 0
  let failed = false
  let used = 0
  let cycles = 0

  const caller = async (/** @type {number} */ own) => {
    while (closed === 0 && !failed) {
      const start = performance.now()
      await cycle(`${prefix}${ownKeys ? own : used++}`)
      const end = performance.now()
      cycles += 1
      if (pause !== undefined) await new Promise(resolve => setTimeout(resolve, pause))
      if (end < opens || closed > 0) continue
      latencies.push(end - start)
      const open = end - opens
      if (open >= window && (latencies.length >= callers || open >= PATIENCE)) closed = end
    }
  }
  const done = await Promise.allSettled(
    Array.from({ length: callers }, (_, own) =>
      caller(own).catch(error => {
        failed = true
        throw error
      }),
    ),
  )
  const failure = done.find(outcome => outcome.status === 'rejected')
  if (failure) throw failure.reason

  const sorted = Float64Array.from(latencies).sort()
  return {
    ops: (sorted.length / (closed - opens)) * 1000,
    p50: percentile(sorted, 0.5),
    p95: percentile(sorted, 0.95),
    p99: percentile(sorted, 0.99),
    cycles,
  }
}
