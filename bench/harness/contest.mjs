import { now } from './clock.mjs'

/**
 * @typedef {object} Terms
 * @property {string} key what they all want
 * @property {number} contenders
 * @property {number} [opens] grants before this moment do not count; by `now()`, as is `closes`
 * @property {number} [closes] nobody asks again after it; default: when it is told to finish
 */

/**
 * What one process had of a contest. The i-th grant that counts was asked for at asked[i] and came at granted[i].
 * @typedef {object} Outcome
 * @property {number[]} served grants that count, by contender
 * @property {Float64Array} asked
 * @property {Float64Array} granted
 * @property {number} grants all there were, before the opening and after the close as well
 */

/** Contenders of one process that each acquire one key, release it at once and ask again. */
export class Contest {
  /** Grants so far. */
  grants = 0
  /** @type {import('./peer.mjs').Peer['cycle']} */
  #cycle
  /** @type {Required<Terms>} */
  #terms

  /**
   * @param {import('./peer.mjs').Peer['cycle']} cycle
   * @param {Terms} terms
   */
  constructor(cycle, terms) {
    this.#cycle = cycle
    this.#terms = { opens: 0, closes: Number.POSITIVE_INFINITY, ...terms }
  }

  /** Nobody asks again, and no grant counts from now on. */
  finish() {
    this.#terms.closes = Math.min(this.#terms.closes, now())
  }

  /** @returns {Promise<Outcome>} */
  async run() {
    const { contenders } = this.#terms
    const served = Array(contenders).fill(0)
    /** @type {number[]} */
    const asked = []
    /** @type {number[]} */
    const granted = []
    const done = await Promise.allSettled(
      served.map((_, contender) =>
        this.#contend((/** @type {number} */ since, /** @type {number} */ at) => {
          served[contender] += 1
          asked.push(since)
          granted.push(at)
        }).catch(error => {
          this.finish()
          throw error
        }),
      ),
    )
    const failure = done.find(outcome => outcome.status === 'rejected')
    if (failure) throw failure.reason
    return {
      served,
      asked: Float64Array.from(asked),
      granted: Float64Array.from(granted),
      grants: this.grants,
    }
  }

  /** @param {(since: number, at: number) => void} count */
  async #contend(count) {
    const { key, opens } = this.#terms
    let since = 0
    const granted = () => {
      const at = now()
      this.grants += 1
      if (at >= opens && at < this.#terms.closes) count(since, at)
    }
    for (since = now(); since < this.#terms.closes; since = now()) await this.#cycle(key, granted)
  }
}
