/**
 * A guard ties a transaction to a grant: while it is open, the grant's row is pinned and nobody else is granted the key,
 * whatever expires, dies or fails over meanwhile. The database is authoritative; the handle's clock is only asked first.
 *
 *   held --pin (first statement)--> pinned --commit--> free to move on
 *                                     |  lost, released or expired: the key waits for the transaction to end
 *                                     |  rolled back to a savepoint from before the pin: free; refused at the commit
 */

import { sqlState } from '../database/failure.ts'
import { quoteIdentifier } from '../database/migrations/quote.ts'
import type { Queryable } from '../database/ports.ts'
import { LostError, NotInTransactionError, WrongDatabaseError } from '../errors.ts'
import type { Session } from '../session/session.ts'

/** A grant as the database knows it. */
export interface Pinnable {
  readonly key: string
  /** Decimal text. */
  readonly token: string
  readonly session: Session
}

/** What a pin answers. */
export interface Pinned {
  /** The transaction's id. */
  readonly transaction: string
  /** Which incarnation it runs in. */
  readonly boot: string
  /** How long the transaction may take, in milliseconds. */
  readonly milliseconds: number
}

export interface GuardHost {
  readonly schema: string
  /** The incarnation that the client has last seen. */
  readonly boot: () => string | undefined
  /** The database does not know the grant: the handle is to find out why. */
  distrust(session: Session): Promise<void>
}

/** A transaction that has pinned a lock. */
export interface Guard {
  /** The transaction's id, as `pg_xact_status` takes it. */
  readonly transaction: string
  /**
   * To be called last, where the transaction may have rolled back to a savepoint from before the guard: that frees it.
   *
   * @throws the database's error FP003, and the transaction cannot commit any more
   */
  confirm(): Promise<void>
}

/**
 * Pins a grant in a transaction that the caller has begun.
 *
 * @throws LostError: it is not held any more, and the transaction is as usable as before (not so at repeatable read and
 * above, where the same comes as a serialization failure, in `cause`)
 * @throws NotInTransactionError, WrongDatabaseError
 */
export async function guard(host: GuardHost, grant: Pinnable, transaction: Queryable): Promise<Guard> {
  const schema = quoteIdentifier(host.schema)
  let pinned: Pinned | undefined
  try {
    const { rows } = await transaction.query(
      `select p.transaction::text, p.boot::text, p.milliseconds from ${schema}.pin($1, $2) p`,
      [grant.key, grant.token],
    )
    pinned = rows[0] as Pinned | undefined
  } catch (error) {
    if (sqlState(error) !== '40001') throw error
    await host.distrust(grant.session)
    throw Object.assign(new LostError(grant.key, grant.session.lossReason ?? 'expired'), { cause: error })
  }
  await checkPinned(host, grant, pinned)
  // Nothing tells a statement whether it is alone; but alone, its transaction is over by the next one.
  const { rows } = await transaction.query('select pg_current_xact_id_if_assigned()::text as transaction', [])
  if ((rows[0] as { transaction: string | null }).transaction !== pinned?.transaction) {
    throw new NotInTransactionError('a guard ends with its transaction: begin one first')
  }
  return {
    transaction: (pinned as Pinned).transaction,
    confirm: async () => {
      await transaction.query(`select ${schema}.pin_again($1, $2)`, [grant.key, grant.token])
    },
  }
}

/** @throws LostError, WrongDatabaseError */
export async function checkPinned(
  host: GuardHost,
  grant: Pinnable,
  pinned: Pinned | undefined,
): Promise<void> {
  if (pinned && pinned.boot === host.boot()) return
  await host.distrust(grant.session)
  if (!pinned) throw new LostError(grant.key, grant.session.lossReason ?? 'expired')
  if (pinned.boot !== host.boot()) {
    throw new WrongDatabaseError(
      `the transaction runs in another database, or another life of the server, than the lock on ${JSON.stringify(grant.key)}`,
    )
  }
}
