import { whenAborted } from '../abort.ts'
import type { Queryable } from '../database/ports.ts'
import { LostError, NotHeldError } from '../errors.ts'
import type { Guard } from '../guard/guard.ts'
import type { TransactionClient } from '../guard/line.ts'
import type { TransactionOptions } from '../guard/transaction.ts'
import { LeaseWatch } from '../lock/lease-watch.ts'
import type { Lock, ReleaseOutcome } from '../lock/lock.ts'

/** One time of leading: from the election until it is resigned or lost, which is final. */
export class Term {
  /** The fencing token: it rises with every term of the election, whoever leads. */
  readonly token: bigint
  readonly #lock: Lock
  readonly #reserve: number
  readonly #controller = new AbortController()
  readonly #watch: LeaseWatch | undefined
  readonly #unwatch: () => void
  readonly #over: Promise<ReleaseOutcome>
  #finish!: (outcome: Promise<ReleaseOutcome>) => void
  #isFinished = false

  /**
   * @internal
   * @param reserve milliseconds of trust that are left when it ends for want of a renewal
   * @throws LostError, NotHeldError: it is not held, or not any more
   */
  constructor(lock: Lock, reserve: number) {
    // Read here, so that the key goes to nobody without the database, where the leader is looked up.
    this.token = lock.token
    this.#lock = lock
    this.#reserve = reserve
    this.#over = new Promise(resolve => {
      this.#finish = resolve
    })
    const { signal } = lock
    this.#unwatch = whenAborted(signal, () => this.stop(signal.reason))
    if (reserve > 0) this.#watch = new LeaseWatch(lock, reserve, () => this.#stopInTime())
  }

  /**
   * Aborted when the term ends, or is to: with a {@link LostError} for a loss (or one that is near, where no renewal was
   * answered for `renewDeadline`, or the client closes), with a {@link NotHeldError} when it is resigned or the callback has
   * ended, and with the caller's own reason when the signal of `lead` is aborted.
   */
  get signal(): AbortSignal {
    this.#look()
    return this.#controller.signal
  }

  /** Runs `work` in a transaction that commits only while this term lasts: as `lock.transaction` does. */
  transaction<T>(
    work: (client: TransactionClient) => Promise<T> | T,
    options?: TransactionOptions,
  ): Promise<T> {
    return this.#lock.transaction(work, options)
  }

  /** Pins this term in a transaction of your own: as `lock.guard` does. */
  guard(transaction: Queryable): Promise<Guard> {
    return this.#lock.guard(transaction)
  }

  // Accessors, and no properties: nobody prints or serializes them by accident.

  /** @internal */
  get lock(): Lock {
    return this.#lock
  }

  /** @internal Whether this process may act as the leader, by the clock at this moment. */
  get isCurrent(): boolean {
    return this.#look()
  }

  /** @internal Whether the lock is still to be given back. */
  get isOpen(): boolean {
    const { state } = this.#lock
    return state !== 'released' && state !== 'lost'
  }

  /** @internal Whether what ran under it has ended. */
  get isFinished(): boolean {
    return this.#isFinished
  }

  /** @internal When what ran under it has ended, and it has been given back. */
  get over(): Promise<ReleaseOutcome> {
    return this.#over
  }

  /** @internal Tells what runs under it to stop. It is held until that has ended. */
  stop(reason: unknown): void {
    this.#controller.abort(reason)
  }

  /** @internal What ran under it has ended: gives it back. */
  finish(): Promise<ReleaseOutcome> {
    const { key } = this.#lock
    this.stop(new NotHeldError(`the term of ${JSON.stringify(key)} is over`, key))
    this.#isFinished = true
    this.#watch?.stop()
    this.#unwatch()
    const releasing = this.#lock.release()
    this.#finish(releasing)
    return releasing
  }

  #look(): boolean {
    if (this.#controller.signal.aborted) return false
    // Asking ends it where it is lost.
    const { state } = this.#lock
    if (state !== 'held' && state !== 'degraded') return false
    if (this.#lock.remaining > this.#reserve) return true
    this.#stopInTime()
    return false
  }

  #stopInTime(): void {
    this.stop(new LostError(this.#lock.key, 'unreachable'))
  }
}
