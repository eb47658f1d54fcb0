/**
 * Why a lock is gone, for good:
 * - `expired`: the database says that the session is over, or that the grant is no longer there;
 * - `unreachable`: no renewal was answered before trust ended;
 * - `forced`: an operator took it;
 * - `shutdown`: this client was closed, or drained because it was unhealthy.
 */
export type LossReason = 'expired' | 'unreachable' | 'forced' | 'shutdown'

/** What every error of this package is. `code` tells which; `cause` is what was underneath, if anything was. */
export abstract class FencepostError extends Error {
  declare readonly code: string
}

function named(errors: Record<string, [type: { prototype: FencepostError }, code: string]>): void {
  for (const [name, [type, code]] of Object.entries(errors)) {
    Object.defineProperty(type.prototype, 'name', { value: name, configurable: true, writable: true })
    Object.defineProperty(type.prototype, 'code', { value: code, enumerable: true, configurable: true })
  }
}

/** An option out of its bounds; the message states them. Nothing was done. */
export class BadOptionError extends FencepostError {}

/** A key that cannot be one: empty, not a string, over 1,000 bytes, with a NUL or half a surrogate pair. */
export class BadKeyError extends FencepostError {}

/** The lock was not to be had within `timeout`; `cause` is set where the database was away. The place in line is given up. */
export class LockTimeoutError extends FencepostError {
  readonly key: string
  /** Milliseconds. */
  readonly timeout: number

  constructor(key: string, timeout: number, options?: { cause: unknown }) {
    const why =
      options?.cause === undefined ? 'was not free' : 'could not be asked for: the database was away'
    super(`${JSON.stringify(key)} ${why} within ${timeout} ms`, options?.cause === undefined ? {} : options)
    this.key = key
    this.timeout = timeout
  }
}

/** The caller's `signal` was aborted; `cause` is its reason. The place in line is given up. */
export class AbortedError extends FencepostError {
  readonly key: string

  constructor(key: string, reason: unknown) {
    super(`waiting for ${JSON.stringify(key)} was aborted`, { cause: reason })
    this.key = key
  }
}

/** As many acquires wait as `maxPending` (or `maxPendingPerKey`) allows. */
export class QueueFullError extends FencepostError {
  readonly key: string
  readonly limit: number

  constructor(key: string, limit: number) {
    super(`${limit} acquires are waiting already: ${JSON.stringify(key)} is not asked for`)
    this.key = key
    this.limit = limit
  }
}

/** The key is in use as something else: as a semaphore of another number of permits, or as a lock. Nothing was taken. */
export class LimitMismatchError extends FencepostError {
  readonly key: string
  /** How many permits this call says that there are; null: it asks for a lock. */
  readonly asked: number | null
  /** How many there are by the database; null: it is a lock. */
  readonly actual: number | null

  constructor(key: string, asked: number | null, actual: number | null) {
    const name = (permits: number | null) =>
      permits === null ? 'a lock' : `a semaphore of ${permits} ${permits === 1 ? 'permit' : 'permits'}`
    super(`${JSON.stringify(key)} is ${name(actual)}, and was asked for as ${name(asked)}`)
    this.key = key
    this.asked = asked
    this.actual = actual
  }
}

/** This task holds the key already: waiting for it would be waiting for itself. `cause` tells where it was taken. */
export class AlreadyHeldError extends FencepostError {
  readonly key: string

  constructor(key: string, why: string, options: { cause: unknown }) {
    super(`${JSON.stringify(key)} is held by this very task: ${why}`, options)
    this.key = key
  }
}

/** This election campaigns or leads already: one object is one candidate. Nothing was done. */
export class AlreadyCampaigningError extends FencepostError {}

/** One who waits in a circle. */
export interface DeadlockStep {
  /** The key that is waited for. */
  readonly key: string
  /** The owner's label of who waits for it. */
  readonly owner: string | null
  /** Whether that is this task. */
  readonly isOurs: boolean
}

/** Tasks wait for each other in a circle, and this one came last: its place in line is given up. Let go of what you hold, and try again. */
export class DeadlockError extends FencepostError {
  readonly key: string
  /** From this task on: each waits for a key that the next one holds, or is before it in line for; the last one, for this task. */
  readonly cycle: readonly DeadlockStep[]

  constructor(key: string, cycle: readonly DeadlockStep[]) {
    const names = cycle.map(({ owner, isOurs }) => (isOurs ? 'this task' : (owner ?? 'somebody')))
    const words = cycle.map((step, i) => {
      const next = names[(i + 1) % names.length]
      return `${names[i]} waits for ${JSON.stringify(step.key)}, which ${next} has`
    })
    super(`deadlock: ${words.join('; ')}`)
    this.key = key
    this.cycle = cycle
  }
}

/** The handle does not hold its lock: released, or `suspended` until the next answer of the database. */
export class NotHeldError extends FencepostError {
  readonly key: string

  constructor(message: string, key: string) {
    super(message)
    this.key = key
  }
}

/** The lock, or the place in line, was lost. Final: acquire it again. */
export class LostError extends NotHeldError {
  readonly reason: LossReason

  constructor(key: string, reason: LossReason) {
    super(`${JSON.stringify(key)} is lost: ${reason}`, key)
    this.reason = reason
  }
}

/** A commit was not answered, and nobody can say any more whether it happened. Look whether the work is there. */
export class CommitUnknownError extends FencepostError {
  readonly key: string
  /** The transaction's id, as `pg_current_xact_id()` gave it. */
  readonly transaction: string

  constructor(key: string, transaction: string, cause: unknown) {
    super(
      `the commit of transaction ${transaction} under ${JSON.stringify(key)} was not answered, and nobody ` +
        'can say what became of it: look whether its work is there before you repeat it',
      { cause },
    )
    this.key = key
    this.transaction = transaction
  }
}

/** What only makes sense inside a transaction was called outside of one: it would have been undone at once. */
export class NotInTransactionError extends FencepostError {}

/** The transaction is of another database, or of another life of the server, than the one that granted the lock. */
export class WrongDatabaseError extends FencepostError {}

/** One attempt at a tick took longer than the schedule's `timeout`. Its signal was aborted with this. */
export class TickTimeoutError extends FencepostError {
  /** Of the schedule. */
  readonly schedule: string
  readonly slot: Date
  /** Milliseconds. */
  readonly timeout: number

  constructor(schedule: string, slot: Date, timeout: number) {
    super(`${JSON.stringify(schedule)} of ${slot.toISOString()} took longer than ${timeout} ms`)
    this.schedule = schedule
    this.slot = slot
    this.timeout = timeout
  }
}

/** What was done once has a result that JSON cannot hold: it was done, and is not remembered. */
export class BadResultError extends FencepostError {
  readonly key: string

  constructor(key: string, why: string) {
    super(`the result of ${JSON.stringify(key)} cannot be kept: ${why}. Want what JSON can hold, or nothing`)
    this.key = key
  }
}

/** The client is closed, or closing. */
export class ClosedError extends FencepostError {}

/** `healthy()` has answered false for a whole time to live: this process takes no locks until it answers true. */
export class UnhealthyError extends FencepostError {}

/** The database cannot be reached; `cause` is the driver's error. */
export class UnreachableError extends FencepostError {}

/** The server has no connection left for us. */
export class OutOfConnectionsError extends UnreachableError {}

/** The server is a standby, or read-only. */
export class ReadOnlyServerError extends UnreachableError {}

/** The server is older than PostgreSQL 14. */
export class ServerTooOldError extends FencepostError {}

/** The schema is not there, or too old for this client, or too new; the message says which and what to do. */
export class NotMigratedError extends FencepostError {}

/** The role may not use the schema: `fencepost migrate --grant ROLE`. */
export class NotPermittedError extends FencepostError {}

/** The database refused a call for a reason that this package does not expect; `cause` is its error. */
export class DatabaseError extends FencepostError {}

/** The transaction has failed already, and does nothing more but roll back. */
export class TransactionAbortedError extends FencepostError {}

/** What writes was called in a read-only transaction, or on a standby. */
export class ReadOnlyTransactionError extends FencepostError {}

/** The transaction's snapshot is older than the grant: what it reads may be older, too. Begin it after the acquire. */
export class StaleSnapshotError extends FencepostError {}

/** `lock.transaction` inside of `lock.transaction` of the same lock: use the client that you were given. */
export class NestedTransactionError extends FencepostError {}

/** The transaction took longer than it may: the server has ended it, or it was given up. Nothing was written. */
export class TransactionTimeoutError extends FencepostError {}

/** A later holder has been here, and this token is refused. Nothing was written. */
export class StaleTokenError extends FencepostError {
  readonly resource: string
  readonly token: bigint
  /** The highest token that the resource has seen. */
  readonly mark: bigint

  constructor(resource: string, token: bigint, mark: bigint) {
    super(`token ${token} for ${JSON.stringify(resource)} is stale: ${mark} has been there`)
    this.resource = resource
    this.token = token
    this.mark = mark
  }
}

named({
  BadOptionError: [BadOptionError, 'bad_option'],
  BadKeyError: [BadKeyError, 'bad_key'],
  LockTimeoutError: [LockTimeoutError, 'timed_out'],
  AbortedError: [AbortedError, 'aborted'],
  QueueFullError: [QueueFullError, 'queue_full'],
  LimitMismatchError: [LimitMismatchError, 'limit_mismatch'],
  AlreadyHeldError: [AlreadyHeldError, 'already_held'],
  AlreadyCampaigningError: [AlreadyCampaigningError, 'already_campaigning'],
  DeadlockError: [DeadlockError, 'deadlock'],
  NotHeldError: [NotHeldError, 'not_held'],
  LostError: [LostError, 'lost'],
  CommitUnknownError: [CommitUnknownError, 'commit_unknown'],
  NotInTransactionError: [NotInTransactionError, 'not_in_transaction'],
  WrongDatabaseError: [WrongDatabaseError, 'wrong_database'],
  TickTimeoutError: [TickTimeoutError, 'tick_timed_out'],
  BadResultError: [BadResultError, 'bad_result'],
  ClosedError: [ClosedError, 'closed'],
  UnhealthyError: [UnhealthyError, 'unhealthy'],
  UnreachableError: [UnreachableError, 'unreachable'],
  OutOfConnectionsError: [OutOfConnectionsError, 'out_of_connections'],
  ReadOnlyServerError: [ReadOnlyServerError, 'read_only'],
  ServerTooOldError: [ServerTooOldError, 'server_too_old'],
  NotMigratedError: [NotMigratedError, 'not_migrated'],
  NotPermittedError: [NotPermittedError, 'not_permitted'],
  DatabaseError: [DatabaseError, 'database'],
  TransactionAbortedError: [TransactionAbortedError, 'transaction_aborted'],
  ReadOnlyTransactionError: [ReadOnlyTransactionError, 'read_only_transaction'],
  StaleSnapshotError: [StaleSnapshotError, 'stale_snapshot'],
  NestedTransactionError: [NestedTransactionError, 'nested_transaction'],
  TransactionTimeoutError: [TransactionTimeoutError, 'transaction_timeout'],
  StaleTokenError: [StaleTokenError, 'stale_token'],
})
