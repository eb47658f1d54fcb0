/** Numbers that a seed decides: the same seed, the same numbers. */
export class Random {
  #state

  /** @param {string} seed */
  constructor(seed) {
    this.#state = [...seed].reduce(
      (sum, letter) => Math.imul(sum ^ letter.charCodeAt(0), 0x01000193) >>> 0,
      0x811c9dc5,
    )
  }

  /** From 0 up to 1. */
  next() {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let x = this.#state
    x = Math.imul(x ^ (x >>> 15), x | 1)
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61)
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32
  }

  /** @param {number} least @param {number} most */
  between(least, most) {
    return least + this.next() * (most - least)
  }

  /** @param {number} share of 1 */
  chance(share) {
    return this.next() < share
  }

  /** @template T @param {readonly T[]} list @returns {T} */
  pick(list) {
    return /** @type {T} */ (list[Math.floor(this.next() * list.length)])
  }

  /** @template T @param {readonly T[]} list @returns {T[]} */
  shuffled(list) {
    const deck = list.map(item => ({ item, at: this.next() }))
    return deck.sort((a, b) => a.at - b.at).map(({ item }) => item)
  }
}
