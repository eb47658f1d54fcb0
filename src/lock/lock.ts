import { inspect } from 'node:util'
import { type FencepostError, type LossReason, LostError, NotHeldError } from '../errors.ts'
import { whileAlive } from '../keep-alive.ts'
import type { Session } from '../session/session.ts'

/** What a handle is now. `degraded`: held, though the last renewal failed. `suspended`: not held until the next answer. */
export type LockState = 'held' | 'degraded' | 'suspended' | 'released' | 'lost'

/** What `release` found: it was given up now, had been before, or was lost, and why. */
export type ReleaseOutcome = 'released' | 'already' | LossReason

export interface LockDetails {
  readonly key: string
  readonly label: string | undefined
  readonly metadata: unknown
}

/** Where a lock is given back. */
export interface GivesBack {
  release(session: Session, key: string, token: string): Promise<'released'>
}

/**
 * A lock that was granted. Every member that says something about holding looks at the clock at that moment, before
 * any timer has fired; a loss is final, and told once.
 */
export class Lock implements AsyncDisposable {
  static {
    // Not a gate: a log line must not throw.
    Object.defineProperty(Lock.prototype, inspect.custom, {
      value(this: Lock): string {
        return `Lock { key: ${JSON.stringify(this.key)}, token: ${this.#token}n, state: '${this.state}' }`
      },
    })
  }

  readonly key: string
  readonly label: string | undefined
  readonly metadata: unknown
  /** @internal */
  readonly requestId: string
  readonly #session: Session
  readonly #token: string
  readonly #returner: GivesBack
  #end: 'released' | LossReason | undefined
  #controller: AbortController | undefined
  #shutdown: LostError | undefined
  #releasing: Promise<'released'> | undefined

  /** @internal */
  constructor(details: LockDetails, requestId: string, token: string, session: Session, returner: GivesBack) {
    this.key = details.key
    this.label = details.label
    this.metadata = details.metadata
    this.requestId = requestId
    this.#token = token
    this.#session = session
    this.#returner = returner
  }

  /**
   * The fencing token: it rises with every grant of the key. Still to be read after a release, for that is a fact.
   *
   * @throws LostError after a loss, NotHeldError while suspended
   */
  get token(): bigint {
    const state = this.state
    if (state !== 'released') this.assertHeld()
    return BigInt(this.#token)
  }

  get state(): LockState {
    if (this.#end === undefined) {
      const trust = this.#session.trust()
      if (trust !== 'over') return trust
    }
    return this.#end === 'released' ? 'released' : 'lost'
  }

  /** Why it was lost, if it was. */
  get lossReason(): LossReason | undefined {
    return this.state === 'lost' ? (this.#end as LossReason) : undefined
  }

  /** Milliseconds until trust ends unless a renewal is answered; 0 when it is not held. */
  get remaining(): number {
    return this.#end === undefined ? this.#session.remaining() : 0
  }

  /** Aborted with a {@link LostError} when the lock is lost, or about to be because the client closes. */
  get signal(): AbortSignal {
    const state = this.state
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (state === 'lost') this.#controller.abort(new LostError(this.key, this.#end as LossReason))
      else if (this.#shutdown) this.#controller.abort(this.#shutdown)
    }
    return this.#controller.signal
  }

  /** @throws LostError when it is lost, NotHeldError when it is released or suspended */
  assertHeld(): void {
    const state = this.state
    if (state === 'held' || state === 'degraded') return
    throw this.#refusal(state)
  }

  /**
   * Renews the session that holds it, now, and with it all that the session holds.
   *
   * @throws LostError, NotHeldError, UnreachableError
   */
  async renew(): Promise<void> {
    if (this.#end !== undefined) throw this.#refusal(this.state)
    await whileAlive(this.#session.renew(this.key))
    this.assertHeld()
  }

  /**
   * Gives it up: not held any more from this call on. Never throws, also not after a loss or while the database is
   * away: it is tried again in the background then, and the session's end does it at the latest.
   */
  release(): Promise<ReleaseOutcome> {
    if (this.state === 'lost') return Promise.resolve(this.#end as LossReason)
    if (this.#releasing !== undefined) return this.#releasing.then(() => 'already')
    this.#end = 'released'
    this.#releasing = this.#returner.release(this.#session, this.key, this.#token)
    return this.#releasing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }

  /** @internal The client closes: whoever works under it is told while it is still held. */
  announceShutdown(): void {
    if (this.#end !== undefined) return
    this.#shutdown = new LostError(this.key, 'shutdown')
    this.#controller?.abort(this.#shutdown)
  }

  /** @internal */
  lose(reason: LossReason): void {
    if (this.#end !== undefined) return
    this.#end = reason
    this.#controller?.abort(new LostError(this.key, reason))
  }

  #refusal(state: LockState): FencepostError {
    if (state === 'lost') return new LostError(this.key, this.#end as LossReason)
    const why =
      state === 'suspended' ? 'suspended until the database answers: a clock was moved' : 'released already'
    return new NotHeldError(`${JSON.stringify(this.key)} is ${why}`, this.key)
  }
}
