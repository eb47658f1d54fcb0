import { now } from './clock.mjs'

/**
 * @typedef {object} Run
 * @property {number} callers
 * @property {number} keys each caller goes round its own share of them; fewer than callers: they contend
 * @property {number} opens by `now()`
 * @property {number} slice milliseconds
 * @property {number} slices how many of them are measured
 */

/**
 * A long run: how many cycles ended in each slice of it.
 * @param {import('./peer.mjs').Peer['cycle']} cycle
 * @param {Run} run
 * @returns {Promise<number[]>}
 */
export async function series(cycle, { callers, keys, opens, slice, slices }) {
  const counts = Array(slices).fill(0)
  let failed = false
  const caller = async (/** @type {number} */ first) => {
    let key = first % keys
    for (let at = 0; at < slices && !failed; ) {
      await cycle(`bench:${key}`)
      key = key + callers < keys ? key + callers : first % keys
      at = Math.floor((now() - opens) / slice)
      if (at >= 0 && at < slices) counts[at] += 1
    }
  }
  const running = Array.from({ length: callers }, (_, first) =>
    caller(first).catch(error => {
      failed = true
      throw error
    }),
  )
  const ended = (await Promise.allSettled(running)).find(outcome => outcome.status === 'rejected')
  if (ended) throw ended.reason
  return counts
}
