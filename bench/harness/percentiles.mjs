/**
 * The value below which a share of the samples lies (nearest rank).
 * @param {ArrayLike<number>} sorted ascending
 * @param {number} share 0 … 1
 */
export function percentile(sorted, share) {
  const rank = Math.max(1, Math.ceil(share * sorted.length))
  return sorted[rank - 1] ?? Number.NaN
}

/** @param {readonly number[]} values in any order */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}
