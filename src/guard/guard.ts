/**
 * A guard ties a transaction to a grant: while it is open, the grant's row is pinned and nobody else is granted the key,
 * whatever expires, dies or fails over meanwhile. The database is authoritative; the handle's clock is only asked first.
 *
 *   held --pin (first statement)--> pinned --commit--> free to move on
 *                                     |  lost, released or expired: the key waits for the transaction to end
 *                                     |  rolled back to a savepoint from before the pin: free; refused at the commit
 */
import { quoteIdentifier, quoteLiteral } from '../database/migrations/quote.ts'
import type { Queryable } from '../database/ports.ts'
import { LostError, NotInTransactionError, StaleSnapshotError, WrongDatabaseError } from '../errors.ts'
import type { Session } from '../session/session.ts'
import { explainTransaction, stateOf } from './failure.ts'
import { type ResolveHost, wasCommitted } from './outcome.ts'

/** A grant as the database knows it. */
export interface Pinnable {
  readonly key: string
  /** Decimal text. */
  readonly token: string
  /** The grant's token: of a run, not each one's own. */
  readonly grant: string
  readonly session: Session
}

/** What a pin answers. */
export interface Pinned {
  /** The transaction's id. */
  readonly transaction: string
  /** Which incarnation it runs in; null in a copy of the database, and in a life of the server that nobody has entered yet. */
  readonly boot: string | null
  /** How long the transaction may take, in milliseconds. */
  readonly milliseconds: number
}

export interface GuardHost extends ResolveHost {
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
   * @throws LostError: it was handed on meanwhile, and the transaction cannot commit any more
   */
  confirm(): Promise<void>
  /**
   * Where the COMMIT was not answered: whether it happened, asked for over another connection. A transaction that
   * nobody will end any more is ended first.
   *
   * @throws CommitUnknownError where nobody can say
   */
  wasCommitted(): Promise<boolean>
}

/** The statement that pins, with literals, so that it fits into the message that begins the transaction. */
export function pinStatement(schema: string, { key, token }: Pinnable): string {
  const name = quoteIdentifier(schema)
  return (
    'select p.transaction::text, p.boot::text, p.milliseconds ' +
    `from ${name}.pin(${quoteLiteral(key)}, ${quoteLiteral(token)}) p`
  )
}

/**
 * The statement before the commit of a transaction that the pin began: while that is the same one there is no savepoint
 * from before the pin, and it stands. Where the work has ended it and begun another, the grant is looked for again.
 */
export function lastStatement(schema: string, grant: Pinnable, { transaction }: Pinned): string {
  const isAnother = `t.id::text is distinct from ${quoteLiteral(transaction)}`
  return (
    `select t.id::text as transaction, case when ${isAnother} then ${pinAgain(schema, grant)} end ` +
    'from pg_current_xact_id_if_assigned() t(id)'
  )
}

// As text: not every client can read a void. With literals: not every client gives its values the types that are asked for.
function pinAgain(schema: string, { key, token }: Pinnable): string {
  return `${quoteIdentifier(schema)}.pin_again(${quoteLiteral(key)}, ${quoteLiteral(token)})::text`
}

/**
 * Pins a grant in a transaction that the caller has begun.
 *
 * @throws LostError: it is not held any more, and the transaction is as usable as before (not so at repeatable read and
 * above, where the same comes as a serialization failure, in `cause`)
 * @throws StaleSnapshotError, NotInTransactionError, WrongDatabaseError, TransactionAbortedError,
 * ReadOnlyTransactionError
 */
export async function guard(host: GuardHost, grant: Pinnable, transaction: Queryable): Promise<Guard> {
  let pinned: Pinned | undefined
  try {
    const { rows } = await transaction.query(pinStatement(host.schema, grant), [])
    pinned = rows[0] as Pinned | undefined
  } catch (error) {
    if (stateOf(error) !== '40001') throw explainTransaction(error, host.schema)
    throw await lossOf(host, grant, error)
  }
  if (!pinned) throw await whyNot(host, grant, transaction)
  await checkPlace(host, grant, pinned)
  // Nothing tells a statement whether it is alone; but alone, its transaction is over by the next one.
  const { rows } = await transaction.query('select pg_current_xact_id_if_assigned()::text as transaction', [])
  if ((rows[0] as { transaction: string | null } | undefined)?.transaction !== pinned.transaction) {
    throw new NotInTransactionError('a guard ends with its transaction: begin one first')
  }
  const sure = pinned
  survive(transaction)
  host.endAfter(sure.transaction, sure.milliseconds)
  host.tellOf(grant.key, sure.transaction, sure.boot as string)
  return {
    transaction: sure.transaction,
    confirm: async () => {
      try {
        await transaction.query(`select ${pinAgain(host.schema, grant)}`, [])
      } catch (error) {
        const state = stateOf(error)
        if (state === 'FP003' || state === '40001') throw await lossOf(host, grant, error)
        throw error
      }
    },
    wasCommitted: () => wasCommitted(host, grant.key, sure, undefined),
  }
}

const surviving = new WeakSet<object>()

/** The bound may end the connection, and a client of `pg` that is out of its pool ends the process if nobody listens. */
function survive(transaction: Queryable): void {
  const { on } = transaction as { on?: (event: 'error', listener: () => void) => unknown }
  if (typeof on !== 'function' || surviving.has(transaction)) return
  surviving.add(transaction)
  on.call(transaction, 'error', () => {})
}

/** The handle is told of its loss, and the caller why. */
export async function lossOf(host: GuardHost, grant: Pinnable, cause?: unknown): Promise<LostError> {
  await host.distrust(grant.session)
  const error = new LostError(grant.key, grant.session.lossReasonOf(grant.grant))
  return cause === undefined ? error : Object.assign(error, { cause })
}

/** No such grant is seen in this transaction. */
async function whyNot(host: GuardHost, grant: Pinnable, transaction: Queryable): Promise<Error> {
  const lost = await lossOf(host, grant)
  if (grant.session.isOver || !grant.session.held.has(grant.grant)) return lost
  const boot = host.boot()
  const { rows } = await transaction.query(
    `select ${quoteIdentifier(host.schema)}.transaction_status(pg_current_xact_id(), ` +
      `${boot === undefined ? 'null' : quoteLiteral(boot)}) as status`,
    [],
  )
  if ((rows[0] as { status: string | null } | undefined)?.status == null) return elsewhere(grant)
  return new StaleSnapshotError(
    `the transaction does not see that ${JSON.stringify(grant.key)} was granted: ` +
      'it had read before. Begin it when you hold the lock, and guard it before its first read',
  )
}

/** @throws WrongDatabaseError */
export async function checkPlace(host: GuardHost, grant: Pinnable, pinned: Pinned): Promise<void> {
  if (pinned.boot !== null && pinned.boot === host.boot()) return
  // We may be the ones who have not heard of the server's new life yet.
  await host.distrust(grant.session)
  if (pinned.boot === null || pinned.boot !== host.boot()) throw elsewhere(grant)
}

function elsewhere(grant: Pinnable): WrongDatabaseError {
  return new WrongDatabaseError(
    `the transaction runs in another database, or another life of the server, than the lock on ${JSON.stringify(grant.key)}`,
  )
}
