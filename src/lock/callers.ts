import { keepAlive, letGo } from '../keep-alive.ts'

/** How long, in milliseconds, `release` waits for an answer before it leaves the rest to the background. */
const patience = 5_000

interface Caller {
  readonly since: number
  readonly resolve: (outcome: 'released') => void
}

/** Callers of `release` that wait for an answer, each for a while at most, with one timer for all of them. */
export class Callers {
  /** The longest waiting first. */
  readonly #waiting = new Map<object, Caller>()
  #timer: NodeJS.Timeout | undefined

  /** @param what it waits for; resolves when that is answered, or has been waited for long enough */
  wait(what: object): Promise<'released'> {
    keepAlive()
    this.#timer ??= setTimeout(() => this.#lose(), patience).unref()
    return new Promise(resolve => this.#waiting.set(what, { since: performance.now(), resolve }))
  }

  answer(what: object): void {
    const caller = this.#waiting.get(what)
    if (!caller) return
    this.#waiting.delete(what)
    letGo()
    caller.resolve('released')
    if (this.#waiting.size > 0) return
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #lose(): void {
    const now = performance.now()
    for (const [what, { since }] of this.#waiting) {
      if (now - since < patience) break
      this.answer(what)
    }
    this.#timer = this.#waiting.size > 0 ? setTimeout(() => this.#lose(), patience / 5).unref() : undefined
  }
}
