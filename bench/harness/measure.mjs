import { percentile } from './percentiles.mjs'

/**
 * One measurement: what the callers completed inside the window.
 * @typedef {object} Figures
 * @property {number} ops cycles a second
 * @property {number} p50 milliseconds, as are the others
 * @property {number} p95
 * @property {number} p99
 */

/** A peer so slow that not every caller got a turn in the window is given up to this long, in milliseconds. */
const PATIENCE = 10_000

/**
 * Runs callers that each cycle without a pause, each cycle on a key that was never used before, and measures the
 * steady state: cycles that end inside the window count, those of the warm-up and of the drain do not.
 * @param {(key: string) => Promise<unknown>} cycle acquires and releases; rejects unless the lock was granted
 * @param {{ callers: number, warmUp: number, window: number }} load times in milliseconds
 * @returns {Promise<Figures>}
 */
export async function measure(cycle, { callers, warmUp, window }) {
  /** @type {number[]} */
  const latencies = []
  const opens = performance.now() + warmUp
  let closed = 0
  let failed = false
  let keys = 0

  const caller = async () => {
    while (closed === 0 && !failed) {
      const start = performance.now()
      await cycle(`bench:${keys++}`)
      const end = performance.now()
      if (end < opens || closed > 0) continue
      latencies.push(end - start)
      const open = end - opens
      if (open >= window && (latencies.length >= callers || open >= PATIENCE)) closed = end
    }
  }
  const done = await Promise.allSettled(
    Array.from({ length: callers }, () =>
      caller().catch(error => {
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
  }
}
