/**
 * Leads, again and again:
 *
 *   candidate --elected--> leader --callback ended, or threw--> given back --(a pause, if it threw)--> candidate, at the end of the line
 *                            |  told to stop (resigned, aborted, client closing): draining --callback ended--> given back
 *                            |  lost: draining --callback ended--> candidate
 *
 * The callback is awaited before anything follows, so that one that was elected and one that is deposed alternate, and what is
 * given back is given back by nobody who still works under it.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { onAbort, whenAborted } from '../abort.ts'
import { Backoff } from '../database/backoff.ts'
import { DatabaseError, NotHeldError, QueueFullError, UnhealthyError, UnreachableError } from '../errors.ts'
import type { Lock } from '../lock/lock.ts'
import type { Section } from '../lock/section.ts'
import { warnOfFailedLeader } from '../warnings.ts'
import type { LeadOptions } from './options.ts'
import type { Term } from './term.ts'

/** What runs while this process leads. */
export type LeaderCallback = (term: Term) => Promise<unknown> | unknown

/** Milliseconds that a leader pauses which threw: doubled each time, up to the most, and forgotten once it has led for that long. */
const leastPause = 500
const mostPause = 30_000

export interface LeadingHost {
  readonly key: string
  readonly closing: AbortSignal
  /** Waits in line, runs it under the lock, and releases that. @throws as `withLock` */
  hold(signal: AbortSignal, section: Section<void>): Promise<void>
  /** @throws LostError, NotHeldError, UnreachableError: it was not elected after all */
  begin(lock: Lock): Promise<Term>
  wasReached(): boolean
}

const around = new AsyncLocalStorage<Term>()

/** Whether the caller is what runs under a term: whatever waits for that would wait for itself. */
export const isInside = (term: Term): boolean => around.getStore() === term

export class Leading {
  readonly #host: LeadingHost
  readonly #callback: LeaderCallback
  readonly #onError: (error: unknown) => void
  readonly #stop = new AbortController()
  readonly #signals: readonly AbortSignal[]
  /** After a callback that threw, and after a campaign that failed. */
  readonly #afterThrow = new Backoff(leastPause, mostPause)
  readonly #afterFailure = new Backoff(100, 2_000)

  constructor(host: LeadingHost, callback: LeaderCallback, { signal, onError }: LeadOptions) {
    this.#host = host
    this.#callback = callback
    this.#onError = onError ?? (error => warnOfFailedLeader(host.key, error))
    this.#signals = signal ? [signal, host.closing] : [host.closing]
  }

  /** Settles when it was told to stop, and nothing of it is left. @throws what no later try would do better at */
  async run(): Promise<void> {
    const unwatch = this.#signals.map(signal => whenAborted(signal, () => this.#stop.abort(signal.reason)))
    try {
      while (!this.#isStopped) await this.#pause(await this.#once())
    } finally {
      for (const each of unwatch) each()
    }
  }

  get #isStopped(): boolean {
    return this.#stop.signal.aborted
  }

  /** One campaign, and one term if it is elected. @returns milliseconds to pause before the next */
  async #once(): Promise<number> {
    const served: { pause?: number } = {}
    try {
      await this.#host.hold(this.#stop.signal, async lock => {
        // The grant and the end may meet.
        if (this.#isStopped) return
        const term = await this.#host.begin(lock)
        this.#afterFailure.reset()
        served.pause = await this.#serve(term)
      })
    } catch (error) {
      // Of a term that was lost it is told once more, when its callback has ended.
      if (served.pause === undefined && !this.#isStopped && !this.#mayTry(error)) throw error
    }
    return served.pause ?? this.#afterFailure.next()
  }

  async #serve(term: Term): Promise<number> {
    const unwatch = whenAborted(this.#stop.signal, () => term.stop(this.#stop.signal.reason))
    const since = performance.now()
    let thrown: { readonly error: unknown } | undefined
    try {
      if (!this.#isStopped) await around.run(term, () => this.#callback(term))
    } catch (error) {
      thrown = { error }
    }
    const { signal } = term
    const wasStopped = signal.aborted
    unwatch()
    await term.finish()
    if (!thrown || performance.now() - since >= mostPause) this.#afterThrow.reset()
    if (!thrown) return 0
    if (!wasStopped || !isOfTheEnd(thrown.error, signal)) this.#tell(thrown.error)
    return wasStopped ? 0 : this.#afterThrow.next()
  }

  #tell(error: unknown): void {
    try {
      this.#onError(error)
    } catch (thrown) {
      warnOfFailedLeader(this.#host.key, thrown)
    }
  }

  /** Whether it is worth another try: the place in line was lost, or something was away. */
  #mayTry(error: unknown): boolean {
    if (error instanceof NotHeldError || error instanceof UnhealthyError || error instanceof QueueFullError)
      return true
    const isOutage = error instanceof UnreachableError || error instanceof DatabaseError
    return isOutage && this.#host.wasReached()
  }

  #pause(delay: number): Promise<void> {
    if (delay === 0 || this.#isStopped) return Promise.resolve()
    return new Promise(resolve => {
      const end = () => {
        clearTimeout(timer)
        unwatch()
        resolve()
      }
      const timer = setTimeout(end, delay)
      const unwatch = onAbort(this.#stop.signal, end)
    })
  }
}

/** What code ends with that was told to stop. */
function isOfTheEnd(error: unknown, { reason }: AbortSignal): boolean {
  return error === reason || error instanceof NotHeldError || (error as Error | null)?.name === 'AbortError'
}
