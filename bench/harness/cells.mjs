import { median } from './percentiles.mjs'

/** @typedef {Record<string, any>} Figures numbers by name; `ops` a second, `p50` and its like in milliseconds */

/**
 * One line of the table: medians over the rounds.
 * @typedef {{ case: string, who: string } & Figures} Cell
 */

/** Collects the figures of each round under a case and a name. */
export class Cells {
  /** @type {Map<string, { case: string, who: string, rounds: Figures[] }>} */
  #cells = new Map()

  /**
   * @param {string} what the case
   * @param {string} who
   * @param {Figures} figures
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
    const names = Object.keys(found.rounds[0] ?? {})
    const figures = names.map(name => {
      const value = median(found.rounds.map(round => round[name] ?? Number.NaN))
      return [name, name === 'ops' ? Math.round(value) : toThousandths(value)]
    })
    return { case: what, who, ...Object.fromEntries(figures) }
  }

  /** All of them, in the order in which they were first added. */
  all() {
    return [...this.#cells.values()].map(cell => this.get(cell.case, cell.who))
  }
}

const toThousandths = (/** @type {number} */ value) => Math.round(value * 1000) / 1000
