import type { LeaderRow } from '../database/sight-calls.ts'
import type { Lock } from '../lock/lock.ts'
import type { Section } from '../lock/section.ts'
import type { Apart } from '../session/use.ts'
import type { AcquireOptions, Settings } from '../settings.ts'
import type { PresenceHost } from './presence/host.ts'

/** What elections need of one client. */
export interface ElectionHost {
  readonly settings: Settings
  /** Aborted when the client begins to close. */
  readonly closing: AbortSignal
  readonly presence: PresenceHost
  /** @param apart the session to do so under; undefined: the one of the ttl */
  acquire(name: string, options: AcquireOptions, apart: Apart | undefined): Promise<Lock>
  /** Runs it under the lock, which is released when it has ended; a client that closes waits for it. */
  withLock<T>(
    name: string,
    options: AcquireOptions,
    section: Section<T>,
    apart: Apart | undefined,
  ): Promise<T>
  /** @param key the whole one @throws ClosedError, UnreachableError, NotMigratedError, NotPermittedError */
  leader(key: string): Promise<LeaderRow | undefined>
  /** Whether the database has answered this client before: what fails since is an outage, and not a wrong address. */
  wasReached(): boolean
}
