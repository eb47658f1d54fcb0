import { settled } from '../within.ts'

/** What runs under a client, whatever kind of work it is: `close` lets it come to its end. */
export class RunningWork {
  readonly #running = new Set<Promise<unknown>>()

  get isEmpty(): boolean {
    return this.#running.size === 0
  }

  /** Awaits work that has begun, as `close` does meanwhile. */
  async run<T>(work: Promise<T>): Promise<T> {
    this.#running.add(work)
    try {
      return await work
    } finally {
      this.#running.delete(work)
    }
  }

  /** Resolves when nothing runs any more, of what begins meanwhile either; or after `timeout` milliseconds. */
  async ended(timeout: number): Promise<void> {
    const until = performance.now() + timeout
    do await settled([...this.#running], Math.max(until - performance.now(), 0))
    while (!this.isEmpty && performance.now() < until)
  }
}
