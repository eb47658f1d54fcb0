import { onAbort } from '../abort.ts'
import type { Asked } from '../database/answers.ts'
import { AbortedError, type FencepostError, LockTimeoutError, LostError } from '../errors.ts'
import { outcomeOf, ticks } from '../metrics.ts'
import type { Session } from '../session/session.ts'
import type { Apart, Use } from '../session/use.ts'
import type { Lock, LockDetails } from './lock.ts'
import { nextRequestId } from './request-id.ts'

/** Milliseconds. */
const patience = 1_000

export interface RequestOptions extends LockDetails {
  /** Of the semaphore whose permits are asked for: how many it is said to have. */
  readonly capacity: number | undefined
  /** Milliseconds that the key is to rest if its holder is lost. */
  readonly lockDelay: number | undefined
  readonly ttl: number
  /** A session that it does not share; undefined: the one of its ttl. */
  readonly apart?: Apart | undefined
  /** A try is answered at once: it has no place in line. */
  readonly waits: boolean
  /** What a try that finds the key taken ends with: null, or an error. */
  readonly orNull: boolean
  /** Milliseconds, or undefined: for ever. */
  readonly timeout: number | undefined
  readonly signal: AbortSignal | undefined
}

export interface RequestOwner {
  /** In line it is to be cancelled; while it is being asked for, the answer comes first. */
  onGivenUp(request: Request): void
  /** @param outcome `granted`, `busy`, or the code of an error */
  onDone(request: Request, outcome: string): void
}

/**
 * One call of `acquire`, from the first word to the last.
 *
 *   new --sent--> asking --queued--> queued --granted--> done
 *                   |  granted, busy, failed: done
 *   whoever gives it up (timeout, abort, close) decides the outcome at that moment; it is done when the database has
 *   confirmed that nothing of it is left, or cannot be reached
 */
export class Request implements Asked {
  readonly id: string = nextRequestId()
  readonly details: RequestOptions
  readonly metadata: string | undefined
  readonly terms: string | undefined
  /** The section that it was asked for in: the request by which that holds its lock. */
  readonly context: string | undefined
  /** Whether it is being looked into whether it waits for itself. */
  isChecked = false
  /** What is granted so far of several keys: it counts once there are all of them. */
  readonly parts: Map<string, string> | undefined
  readonly promise: Promise<Lock | null>
  /** When it was made, in {@link ticks}. */
  readonly since: number = ticks()
  stage: 'new' | 'asking' | 'queued' | 'done' = 'new'
  /** Under which it was last asked. */
  session: Session | undefined
  /** Why its caller no longer wants it. */
  givenUp: FencepostError | undefined
  /** Since when the database could not be reached for it, by the monotonic clock. */
  failingSince: number | undefined
  /** The session under which it has been in line: should that die, its place is lost. */
  placedUnder: Session | undefined
  /** The last token that a run offered it: an answer that offers no higher one is late. */
  offered = ''
  /** Why it could not be asked for the last time. */
  failure: unknown
  #resolve!: (lock: Lock | null) => void
  #reject!: (error: unknown) => void
  #timer: NodeJS.Timeout | undefined
  #patience: NodeJS.Timeout | undefined
  #unwatch: (() => void) | undefined
  readonly #owner: RequestOwner

  constructor(details: RequestOptions, owner: RequestOwner, context?: string) {
    this.details = details
    this.context = context
    this.terms = termsOf(details, context)
    this.parts = details.keys && new Map()
    this.metadata = details.metadata === undefined ? undefined : JSON.stringify(details.metadata)
    this.#owner = owner
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    const { timeout, signal } = details
    if (signal) this.#unwatch = onAbort(signal, () => this.giveUp(new AbortedError(this.key, signal.reason)))
    // Node fires a timer beyond 2^31 ms at once; such a wait is one without end.
    if (timeout !== undefined && details.waits && timeout < 2 ** 31) {
      this.#timer = setTimeout(() => {
        this.giveUp(new LockTimeoutError(this.key, timeout, { cause: this.failure }))
      }, timeout)
    }
  }

  get key(): string {
    return this.details.key
  }

  get keys(): readonly string[] | undefined {
    return this.details.keys
  }

  /** Under which session it is asked for. */
  get use(): Use {
    return this.details.apart ?? this.details.ttl
  }

  /** Whether it waits for a key. */
  wants(key: string): boolean {
    return this.keys === undefined ? this.key === key : this.keys.includes(key)
  }

  get label(): string | undefined {
    return this.details.label
  }

  get waits(): boolean {
    return this.details.waits
  }

  resolve(lock: Lock | null): void {
    if (this.#finish(lock ? 'granted' : 'busy')) this.#resolve(lock)
  }

  /** A try that found the key taken. */
  resolveBusy(): void {
    if (this.details.orNull) this.resolve(null)
    else if (this.#finish('busy')) this.#reject(new LockTimeoutError(this.key, 0))
  }

  fail(error: unknown): void {
    if (this.#finish(outcomeOf(error))) this.#reject(error)
  }

  giveUp(error: FencepostError): void {
    if (this.stage === 'done' || this.givenUp) return
    this.givenUp = error
    this.#clear()
    // Nothing of it is in the database, or nobody can say while that is away.
    if (this.stage === 'new' || this.failure !== undefined) return this.fail(error)
    // Its caller waits until the database has confirmed that nothing is left, but no longer than this.
    this.#patience = setTimeout(() => this.fail(error), patience).unref()
    this.#owner.onGivenUp(this)
  }

  /** The session under which it was in line is over. */
  losePlace(session: Session): void {
    this.fail(this.givenUp ?? new LostError(this.key, session.lossReason ?? 'expired'))
  }

  #clear(): void {
    if (this.#timer) clearTimeout(this.#timer)
    this.#unwatch?.()
  }

  #finish(outcome: string): boolean {
    if (this.stage === 'done') return false
    this.stage = 'done'
    if (this.#patience) clearTimeout(this.#patience)
    this.#clear()
    this.#owner.onDone(this, outcome)
    return true
  }
}

/** What goes beyond an exclusive lock of one key, as JSON of the SQL type `terms`. */
function termsOf(
  { mode, permits, capacity, lockDelay, keys }: RequestOptions,
  context?: string,
): string | undefined {
  if (mode === 'exclusive' && lockDelay === undefined && keys === undefined && context === undefined)
    return undefined
  return JSON.stringify({
    mode: mode === 'exclusive' ? undefined : mode,
    permits,
    capacity,
    delay: lockDelay,
    context,
    wide: keys && true,
  })
}
