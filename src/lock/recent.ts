/** Milliseconds for which it counts after it was last found so. */
const memory = 1_000
const sweepAt = 1_000

/** Keys of which an answer said something lately. */
export class Recent {
  readonly #until = new Map<string, number>()

  has(key: string): boolean {
    if (this.#until.size === 0) return false
    const until = this.#until.get(key)
    return until !== undefined && performance.now() < until
  }

  /** Whether it has been found so, not too long ago. */
  knows(key: string): boolean {
    return this.#until.has(key)
  }

  /** False: it was known already. */
  add(key: string): boolean {
    const isNew = !this.has(key)
    if (isNew && this.#until.size >= sweepAt) this.#sweep()
    this.#until.set(key, performance.now() + memory)
    return isNew
  }

  #sweep(): void {
    const now = performance.now()
    for (const [key, until] of this.#until) if (until <= now) this.#until.delete(key)
  }
}
