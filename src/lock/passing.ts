/**
 * The permits of one key as this process passes them on. Those of its requests that are next in line there may have what a handle
 * gives back, without a call and in the order of the line: the database has said so, and has them in line all the same. It
 * is told whom they were passed on to when they go back.
 *
 *   in line --"follows"--> waiting here --a handle gives back as many--> passed on --they go back--> forgotten
 *                               '--the database grants it others--> granted
 */
import type { Lock } from './lock.ts'
import type { Request } from './request.ts'

export interface Turn {
  readonly key: string
  readonly token: string
  readonly request: string
}

export class Passing {
  readonly key: string
  readonly #waiting: Request[] = []
  readonly #known = new Set<Request>()
  /** Requests to which permits were passed on, by id, with how many: in line until the database says otherwise. */
  readonly #passed = new Map<string, number | undefined>()
  /** By their tokens: who has permits that were passed on. */
  readonly #turns = new Map<string, { request: string; lock: Lock; isTold: boolean }>()
  #toldAt = 0
  isWatched = false

  constructor(key: string) {
    this.key = key
  }

  /** In the order of the line. */
  add(request: Request): void {
    if (this.#known.has(request) || this.#passed.has(request.id)) return
    this.#known.add(request)
    this.#waiting.push(request)
    this.#toldAt = performance.now()
  }

  /** Whether the database has said who may have them less than so many milliseconds ago. */
  isYoung(most: number): boolean {
    return performance.now() - this.#toldAt < most
  }

  /** The next who still wants so many. */
  next(permits: number | undefined): Request | undefined {
    for (;;) {
      const [first] = this.#waiting
      if (!first) return undefined
      const isOpen = first.stage === 'queued' && !first.givenUp
      if (isOpen && first.details.permits !== permits) return undefined
      this.#waiting.shift()
      this.#known.delete(first)
      if (isOpen) return first
    }
  }

  passOn(request: Request, token: string, lock: Lock): void {
    this.#passed.set(request.id, request.details.permits)
    this.#turns.set(token, { request: request.id, lock, isTold: false })
  }

  /** How many permits were passed on to a request that is in line still; false: none were. */
  permitsOf(request: string): number | undefined | false {
    return this.#passed.has(request) && this.#passed.get(request)
  }

  /**
   * Those that have permits which were passed on to them, and of which the database was not told. Until it answers that they
   * are in line no more it may grant them others.
   */
  untold(isHeld: (token: string, lock: Lock) => boolean): Turn[] {
    const turns: Turn[] = []
    for (const [token, turn] of this.#turns) {
      if (!isHeld(token, turn.lock)) this.#turns.delete(token)
      else if (!turn.isTold) {
        turn.isTold = true
        turns.push({ key: this.key, token, request: turn.request })
      }
    }
    return turns
  }

  /** To whom they were passed on. */
  get passed(): string[] {
    return [...this.#passed.keys()]
  }

  /** They are in line no more. */
  forget(requests: readonly string[]): void {
    for (const request of requests) this.#passed.delete(request)
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0 && this.#passed.size === 0
  }
}
