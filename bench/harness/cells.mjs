import { median } from './percentiles.mjs'

/**
 * One line of the table: medians over the rounds.
 * @typedef {import('./measure.mjs').Figures & { case: string, who: string }} Cell
 */

/** Collects the figures of each round under a case and a name. */
export class Cells {
  /** @type {Map<string, { case: string, who: string, rounds: import('./measure.mjs').Figures[] }>} */
  #cells = new Map()

  /**
   * @param {string} what the case
   * @param {string} who
   * @param {import('./measure.mjs').Figures} figures
   */
  add(what, who, figures) {
    const key = JSON.stringify([what, who])
    const cell = this.#cells.get(key) ?? { case: what, who, rounds: [] }
    cell.rounds.push(figures)
    this.#cells.set(key, cell)
  }

  /**
   * @param {string} what
   * @param {string} who
   * @returns {Cell}
   */
  get(what, who) {
    const found = this.#cells.get(JSON.stringify([what, who]))
    if (!found) throw new Error(`nothing was measured for ${who}, ${what}`)
    const over = (/** @type {'ops' | 'p50' | 'p95' | 'p99'} */ figure) =>
      median(found.rounds.map(r => r[figure]))
    return {
      case: what,
      who,
      ops: Math.round(over('ops')),
      p50: round(over('p50')),
      p95: round(over('p95')),
      p99: round(over('p99')),
    }
  }

  /** All of them, in the order in which they were first added. */
  all() {
    return [...this.#cells.values()].map(cell => this.get(cell.case, cell.who))
  }
}

/** Milliseconds to the microsecond. @param {number} value */
const round = value => Math.round(value * 1000) / 1000
