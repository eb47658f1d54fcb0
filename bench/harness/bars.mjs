/**
 * What a figure must reach.
 * @typedef {{ what: string, op: '>=' | '<=', want: number, got: number, ok: boolean }} Bar
 */

/**
 * @param {string} what
 * @param {'>=' | '<='} op
 * @param {number} want
 * @param {number} got a figure that could not be taken (NaN) fails
 * @returns {Bar}
 */
export function bar(what, op, want, got) {
  const rounded = Math.round(got * 1000) / 1000
  return { what, op, want, got: rounded, ok: op === '>=' ? rounded >= want : rounded <= want }
}
