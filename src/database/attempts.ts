import { Backoff } from './backoff.ts'

/** Milliseconds between two attempts at the most, and half of that at the least: 120 to 240 a minute. */
const longest = 500
/** Of a ttl: as often as a renewal that failed is tried again, so that its next try is one. */
const shareOfTtl = 1 / 12
/** Milliseconds: a connection that breaks sooner was no success; after as long without a failure the waits begin anew. */
const steady = 2_000

/**
 * Spaces a client's attempts to connect to one address while they fail, for all of its connections together: each lane has its
 * own callers who try again, and a fleet of them would be a storm on a server that is about to come up. What succeeds wakes
 * those who wait. An attempt that hangs keeps nobody waiting for longer: it is the beginnings that are spaced.
 */
export class Attempts {
  readonly #backoff: Backoff
  readonly #sleeping = new Set<() => void>()
  #isFailing = false
  #failedAt = Number.NEGATIVE_INFINITY
  #dueAt = 0
  #cause: unknown

  /** @param ttl milliseconds that may be lost by waiting for longer than a part of them */
  constructor(ttl: number = Number.POSITIVE_INFINITY) {
    this.#backoff = new Backoff(20, Math.min(longest, ttl * shareOfTtl))
  }

  /** Resolves when one may begin. @throws what the last one failed with, if its turn does not come within the timeout */
  async turn(timeout: number): Promise<void> {
    const until = performance.now() + timeout
    while (this.#isFailing) {
      const now = performance.now()
      if (this.#dueAt > until) throw this.#cause
      if (this.#dueAt <= now) {
        this.#dueAt = now + this.#backoff.next()
        return
      }
      await this.#sleep(this.#dueAt - now)
    }
  }

  succeeded(): void {
    this.#isFailing = false
    for (const wake of [...this.#sleeping]) wake()
  }

  failed(cause: unknown): void {
    const now = performance.now()
    if (now - this.#failedAt > steady) this.#backoff.reset()
    if (!this.#isFailing) this.#dueAt = now + this.#backoff.next()
    this.#isFailing = true
    this.#failedAt = now
    this.#cause = cause
  }

  /** A connection that was opened at that time, by the monotonic clock, has broken. */
  broke(openedAt: number, cause: unknown): void {
    if (performance.now() - openedAt < steady) this.failed(cause)
  }

  #sleep(milliseconds: number): Promise<void> {
    return new Promise(resolve => {
      const wake = (): void => {
        clearTimeout(timer)
        this.#sleeping.delete(wake)
        resolve()
      }
      const timer = setTimeout(wake, Math.ceil(milliseconds))
      timer.unref()
      this.#sleeping.add(wake)
    })
  }
}
