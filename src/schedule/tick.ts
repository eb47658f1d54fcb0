import { onAbort } from '../abort.ts'
import { TickTimeoutError } from '../errors.ts'
import type { Lock } from '../lock/lock.ts'

/** What runs at each tick that this process wins. */
export type TickWork = (tick: Tick) => Promise<unknown> | unknown

/** @param tick which attempt at which one */
export type TickErrorListener = (
  error: unknown,
  tick: { readonly name: string; readonly slot: Date; readonly attempt: number },
) => void

/** Which tick it is, and what is to be made of one attempt at it. */
interface TickDetails {
  readonly name: string
  /** Milliseconds since 1970. */
  readonly slot: number
  readonly attempt: number
  /** Milliseconds; 0: for ever. */
  readonly timeout: number
}

/** One attempt at a tick, as what runs in it sees it. */
export class Tick {
  /** Of the schedule, namespace included. */
  readonly name: string
  /** When it was due: which tick it is, on every node. */
  readonly slot: Date
  /** 1, or higher where it failed before, or its process died. */
  readonly attempt: number
  /** Aborted with the reason when the lease is lost, the client closes, or the timeout has passed. */
  readonly signal: AbortSignal
  /** Runs work in a transaction that commits only while the lease is held, as `lock.transaction` does. */
  readonly transaction: Lock['transaction']
  /** Pins the lease in a transaction of your own, as `lock.guard` does. */
  readonly guard: Lock['guard']
  readonly #lock: Lock

  /** @internal */
  constructor({ name, slot, attempt }: TickDetails, lock: Lock, signal: AbortSignal) {
    this.name = name
    this.slot = new Date(slot)
    this.attempt = attempt
    this.signal = signal
    // Functions of their own: they may be taken out of the object.
    this.transaction = (work, options) => lock.transaction(work, options)
    this.guard = transaction => lock.guard(transaction)
    this.#lock = lock
  }

  /** The fencing token of the lease. @throws as `lock.token` does */
  get token(): bigint {
    return this.#lock.token
  }

  /** @internal */
  get lock(): Lock {
    return this.#lock
  }
}

/**
 * Runs one attempt, and settles when that has ended, however long it takes no notice of its signal: as long the lease is
 * kept, and nobody else runs. Answers what it failed with, undefined where it did not.
 *
 * @param late called when its time is up
 */
export async function attemptTick(
  lock: Lock,
  details: TickDetails,
  work: TickWork,
  late: (error: TickTimeoutError) => void,
): Promise<{ readonly error: unknown } | undefined> {
  const controller = new AbortController()
  const { signal } = lock
  const unwatch = onAbort(signal, () => controller.abort(signal.reason))
  if (signal.aborted) controller.abort(signal.reason)
  const tick = new Tick(details, lock, controller.signal)
  let timedOut: TickTimeoutError | undefined
  const timer =
    details.timeout > 0
      ? setTimeout(() => {
          timedOut = new TickTimeoutError(details.name, tick.slot, details.timeout)
          late(timedOut)
          controller.abort(timedOut)
        }, details.timeout)
      : undefined
  try {
    await work(tick)
    return timedOut && { error: timedOut }
  } catch (error) {
    return { error: timedOut ?? error }
  } finally {
    clearTimeout(timer)
    unwatch()
  }
}
