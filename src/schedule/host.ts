import { Backoff } from '../database/backoff.ts'
import { BrokenConnection, endsConnection, explain, isTransient, sqlState } from '../database/failure.ts'
import type { Wire } from '../database/lane.ts'
import type { ScheduleCalls } from '../database/schedule-calls.ts'
import { ClosedError, LostError } from '../errors.ts'
import type { Lock } from '../lock/lock.ts'
import type { Section } from '../lock/section.ts'
import type { AcquireOptions } from '../settings.ts'
import { ServerClock } from './server-clock.ts'

interface ScheduleHostOptions {
  readonly schema: string
  readonly calls: ScheduleCalls
  readonly wire: Wire
  /** Milliseconds. */
  readonly callTimeout: number
  /** What this client calls itself, for people. */
  readonly owner: string
  /** A name under the client's namespace. @throws BadKeyError */
  fullKey(key: string): string
  isClosed(): boolean
  /** Runs a section under an exclusive lock. */
  underLease<T>(key: string, options: AcquireOptions, section: Section<T>): Promise<T>
  /** Runs what is no part of the section that its caller may be in. */
  apart<T>(run: () => T): T
}

type Call<T> = (calls: ScheduleCalls, wire: Wire, timeout: number) => Promise<T>

/** What schedules, and what is done once, need of one client. */
export class ScheduleHost {
  readonly clock: ServerClock = new ServerClock()
  readonly #options: ScheduleHostOptions

  constructor(options: ScheduleHostOptions) {
    this.#options = options
  }

  get owner(): string {
    return this.#options.owner
  }

  /** @throws ClosedError */
  checkOpen(): void {
    if (this.#options.isClosed()) throw new ClosedError('the client is closed')
  }

  fullKey(key: string): string {
    return this.#options.fullKey(key)
  }

  /** It goes back through the database each time: a call of the last one that comes late must not find it held. */
  underLease<T>(key: string, options: AcquireOptions, section: Section<T>): Promise<T> {
    return this.#options.underLease(key, options, lock => {
      // What was read is not passed on inside the process.
      void lock.token
      return section(lock)
    })
  }

  apart<T>(run: () => T): T {
    return this.#options.apart(run)
  }

  /** @throws UnreachableError, NotMigratedError, NotPermittedError, DatabaseError */
  async ask<T>(call: Call<T>): Promise<T> {
    const { calls, wire, callTimeout, schema } = this.#options
    try {
      return await call(calls, wire, callTimeout)
    } catch (error) {
      throw explain(error, schema)
    }
  }

  /**
   * What may be repeated without harm, until it is answered or the lease is lost.
   *
   * @throws LostError, and for what another try would not mend, as {@link ask}
   */
  async persist<T>(lease: Lock, call: Call<T>): Promise<T> {
    const { calls, wire, callTimeout, schema } = this.#options
    const backoff = new Backoff(25, 1_000)
    for (;;) {
      try {
        return await call(calls, wire, callTimeout)
      } catch (error) {
        const { lossReason } = lease
        if (sqlState(error) === 'FP003' || lossReason) throw new LostError(lease.key, lossReason ?? 'expired')
        const mayTry = error instanceof BrokenConnection || endsConnection(error) || isTransient(error)
        if (!mayTry) throw explain(error, schema)
        await backoff.wait()
      }
    }
  }
}
