import { onAbort } from '../abort.ts'
import type { LeaderRow } from '../database/sight-calls.ts'
import { ClosedError, DatabaseError, UnreachableError } from '../errors.ts'
import { keepAlive, letGo } from '../keep-alive.ts'
import type { Leader } from './leader.ts'
import { Sequence } from './sequence.ts'

/** Milliseconds between two looks, at least, while the database is away. */
const awayPause = 100

export interface ObserverOptions {
  /** Milliseconds: what lasts longer is not missed. */
  readonly poll: number
  /** Each of them ends it. */
  readonly signals: readonly AbortSignal[]
  look(): Promise<LeaderRow | undefined>
  wasReached(): boolean
}

type Shown = Leader | null

/**
 * Who leads, one after another, as {@link Sequence} has it. It looks from the first `next` on, twice in each poll interval and
 * whether somebody asks or not, and keeps what it has found until that is asked for.
 */
export class Observer implements AsyncIterableIterator<Shown> {
  readonly #options: ObserverOptions
  readonly #sequence = new Sequence()
  readonly #found: Shown[] = []
  readonly #asking: {
    resolve(result: IteratorResult<Shown>): void
    reject(error: unknown): void
  }[] = []
  readonly #unwatch: (() => void)[]
  #timer: NodeJS.Timeout | undefined
  #hasBegun = false
  /** Whether it has been answered before: what fails since is an outage. */
  #hasSeen = false
  #isOver = false
  #failure: { readonly error: unknown } | undefined

  constructor(options: ObserverOptions) {
    this.#options = options
    this.#unwatch = options.signals.map(signal => onAbort(signal, () => this.#end()))
    if (options.signals.some(signal => signal.aborted)) this.#end()
  }

  next(): Promise<IteratorResult<Shown>> {
    const [value] = this.#found
    if (value !== undefined) {
      this.#found.shift()
      return Promise.resolve({ done: false, value })
    }
    if (this.#failure) {
      const { error } = this.#failure
      this.#failure = undefined
      return Promise.reject(error)
    }
    if (this.#isOver) return Promise.resolve({ done: true, value: undefined })
    keepAlive()
    const asked = new Promise<IteratorResult<Shown>>((resolve, reject) => {
      this.#asking.push({ resolve, reject })
    })
    if (!this.#hasBegun) void this.#look()
    this.#hasBegun = true
    return asked
  }

  return(): Promise<IteratorResult<Shown>> {
    this.#end()
    return Promise.resolve({ done: true, value: undefined })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async #look(): Promise<void> {
    const { look, poll } = this.#options
    const asked = performance.now()
    let pause = poll / 2
    try {
      const row = await look()
      if (this.#isOver) return
      const shown = this.#sequence.next(row, asked, performance.now())
      if (shown !== undefined) this.#show(shown)
      this.#hasSeen = true
    } catch (error) {
      if (this.#isOver) return
      if (!this.#survives(error)) return this.#fail(error)
      pause = Math.max(pause, awayPause)
    }
    const delay = Math.max(asked + pause - performance.now(), 0)
    this.#timer = setTimeout(() => void this.#look(), delay)
    this.#timer.unref()
  }

  #survives(error: unknown): boolean {
    const isOutage = error instanceof UnreachableError || error instanceof DatabaseError
    return isOutage && (this.#hasSeen || this.#options.wasReached())
  }

  #show(shown: Shown): void {
    const next = this.#asking.shift()
    if (!next) {
      this.#found.push(shown)
      return
    }
    letGo()
    next.resolve({ done: false, value: shown })
  }

  #fail(error: unknown): void {
    // The client is closed: an end like the others.
    if (error instanceof ClosedError) return this.#end()
    const first = this.#asking.shift()
    if (first) {
      letGo()
      first.reject(error)
    } else {
      this.#failure = { error }
    }
    this.#stop()
  }

  #end(): void {
    this.#found.length = 0
    this.#stop()
  }

  #stop(): void {
    this.#isOver = true
    clearTimeout(this.#timer)
    for (const unwatch of this.#unwatch) unwatch()
    for (const { resolve } of this.#asking.splice(0)) {
      letGo()
      resolve({ done: true, value: undefined })
    }
  }
}
