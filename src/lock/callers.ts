import { keepAlive, letGo } from '../keep-alive.ts'

/** How long, in milliseconds, `release` waits for an answer before it leaves the rest to the background. */
const patience = 5_000

/** What a caller of `release` waits for. */
export interface Awaited {
  readonly since: number
  /** The caller's; taken away once it has been called. */
  resolve: ((outcome: 'released') => void) | undefined
}

/** Callers of `release` that wait for an answer, each for a while at most, with one timer for all of them. */
export class Callers {
  /** The longest waiting first. */
  readonly #waiting = new Set<Awaited>()
  #timer: NodeJS.Timeout | undefined

  add(what: Awaited): void {
    keepAlive()
    this.#waiting.add(what)
    this.#timer ??= setTimeout(() => this.#lose(), patience).unref()
  }

  /** It is answered, or has been waited for long enough. */
  answer(what: Awaited): void {
    if (!this.#waiting.delete(what)) return
    letGo()
    what.resolve?.('released')
    what.resolve = undefined
    if (this.#waiting.size > 0) return
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #lose(): void {
    const now = performance.now()
    for (const what of this.#waiting) {
      if (now - what.since < patience) break
      this.answer(what)
    }
    this.#timer = this.#waiting.size > 0 ? setTimeout(() => this.#lose(), patience / 5).unref() : undefined
  }
}
