import {
  BadOptionError,
  DatabaseError,
  FencepostError,
  NotMigratedError,
  NotPermittedError,
  OutOfConnectionsError,
  ReadOnlyServerError,
  UnreachableError,
} from '../errors.ts'

/**
 * A connection that broke, or did not answer in time. `sent` tells whether the statement may have run: its outcome is
 * unknown then, and stays so until the session's generation has been raised or the call has been repeated.
 */
export class BrokenConnection extends Error {
  readonly sent: boolean

  constructor(sent: boolean, cause: unknown) {
    super(messageOf(cause), { cause })
    this.sent = sent
  }
}

export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOf).join('; ')
  return error instanceof Error ? error.message : String(error)
}

export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && 'severity' in (error as object)
    ? code
    : undefined
}

/** The server said that it ends the connection, or that it is the wrong server: another connection may do better. */
export function endsConnection(error: unknown): boolean {
  if (error instanceof FencepostError) return false
  const state = sqlState(error)
  return state === undefined || /^(08|57P|25006|58|XX)/.test(state)
}

/** Rolled back for a reason that may be gone the next time: a timeout, a deadlock, a serialization failure. */
export function isTransient(error: unknown): boolean {
  const state = sqlState(error)
  return state !== undefined && /^(57014|55P03|40001|40P01)$/.test(state)
}

/** What the caller of the library gets for a failure of the database. */
export function explain(error: unknown, schema: string): FencepostError {
  const cause = error instanceof BrokenConnection ? error.cause : error
  if (cause instanceof FencepostError) return cause
  const message = messageOf(cause)
  switch (sqlState(cause)) {
    case '53300':
    case '53400':
      return new OutOfConnectionsError(`the server has no connection left: ${message}`, { cause })
    case '25006':
      return new ReadOnlyServerError(`the server is read-only or a standby: ${message}`, { cause })
    case '3F000':
    case '42883':
      // With a context it comes from inside a function of ours, which is there then.
      if ((cause as { where?: string }).where !== undefined) break
      return new NotMigratedError(
        `there is no Fencepost in schema "${schema}" of this database: run "fencepost migrate" or await fp.migrate()`,
        { cause },
      )
    case '42501':
      return new NotPermittedError(`${message}: run "fencepost migrate --grant ROLE" as the schema's owner`, {
        cause,
      })
    case 'FP004':
      return new BadOptionError(
        `${message.replace(/^fencepost: /, '')}; raise it with "fencepost migrate --max-ttl"`,
        { cause },
      )
  }
  return endsConnection(cause) || /^(28|3D)/.test(sqlState(cause) ?? '')
    ? new UnreachableError(`the database cannot be reached: ${message}`, { cause })
    : new DatabaseError(message, { cause })
}
