/** Waits between tries: doubling, capped, with jitter, so that a fleet does not come back in one moment. */
export class Backoff {
  readonly #least: number
  readonly #most: number
  #delay: number

  constructor(least: number, most: number) {
    this.#least = least
    this.#most = most
    this.#delay = least
  }

  reset(): void {
    this.#delay = this.#least
  }

  /** Milliseconds until the next try. */
  next(): number {
    const delay = this.#delay * (0.5 + Math.random() / 2)
    this.#delay = Math.min(this.#delay * 2, this.#most)
    return delay
  }

  async wait(): Promise<void> {
    const delay = this.next()
    await new Promise<void>(resolve => setTimeout(resolve, delay).unref())
  }
}
