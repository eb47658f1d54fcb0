import { ReadOnlyServerError, ServerTooOldError } from '../../errors.ts'
import type { OwnConnection } from './connection.ts'

const oldestServer = 14

// One message, so that no default of the role's comes between its parts. Local to the transaction: through a
// transaction pooler nothing of it leaks into somebody else's session.
const begin = `
  begin isolation level read committed;
  set local statement_timeout = 0;
  set local lock_timeout = 0;
  set local idle_in_transaction_session_timeout = 0;
  set local synchronous_commit = on;
  set local client_min_messages = warning`

// From 17 on.
const withoutTransactionTimeout = `
  select set_config(name, '0', true) from pg_settings where name = 'transaction_timeout'`

const server = `
  select current_setting('server_version_num')::int / 10000 as major,
         pg_is_in_recovery() or current_setting('transaction_read_only') = 'on' as read_only`

/**
 * Runs `work` in a transaction that the role's defaults cannot disturb (timeouts, isolation, synchronous_commit).
 * It is committed when `work` answers, and rolled back when it throws.
 */
export async function inTransaction<T>(db: OwnConnection, work: () => Promise<T>): Promise<T> {
  await db.query(begin)
  try {
    await db.query(withoutTransactionTimeout)
    const answer = await work()
    await db.query('commit')
    return answer
  } catch (error) {
    await db.query('rollback').catch(() => {}) // the connection may be gone: the server rolls back by itself
    throw error
  }
}

/** @throws ServerTooOldError */
export async function checkServer(db: OwnConnection): Promise<{ readonly readOnly: boolean }> {
  const { rows } = await db.query<{ major: number; read_only: boolean }>(server)
  const [{ major, read_only: readOnly }] = rows as [(typeof rows)[number]]
  if (major < oldestServer) {
    throw new ServerTooOldError(`PostgreSQL ${major} is too old: Fencepost needs ${oldestServer} or later`)
  }
  return { readOnly }
}

/** @throws ReadOnlyServerError on a standby, or where transactions are read-only by default. */
export async function checkWritable(db: OwnConnection): Promise<void> {
  const { readOnly } = await checkServer(db)
  if (readOnly) throw new ReadOnlyServerError('the server is read-only: migrate on the primary')
}
