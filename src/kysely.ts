import {
  CompiledQuery,
  type Kysely,
  type Selectable,
  type SelectQueryBuilder,
  type Transaction,
} from 'kysely'
import type { Queryable } from './database/ports.ts'
import { NotInTransactionError } from './errors.ts'
import { stateOf } from './guard/failure.ts'
import type { Guard } from './guard/guard.ts'
import type { TransactionOptions } from './guard/transaction.ts'

/** The member of a {@link Lock} that is used. */
export interface Guardable {
  guard(transaction: Queryable): Promise<Guard>
}

/** A Kysely transaction, as anything of ours takes one that asks for `query(text, values)`. */
export function queryable(
  trx: Pick<Transaction<never>, 'executeQuery'> & { isTransaction?: boolean },
): Queryable {
  if (trx.isTransaction === false)
    throw new NotInTransactionError('want the transaction, not the Kysely around it')
  return { query: (text, values = []) => trx.executeQuery(CompiledQuery.raw(text, values)) }
}

/**
 * Pins a lock in a Kysely transaction, until that ends. To be called before the first read of guarded data.
 *
 * @throws as `lock.guard` does
 */
// biome-ignore lint/suspicious/noExplicitAny: whatever the tables are
export async function guard(lock: Guardable, trx: Transaction<any>): Promise<Guard> {
  return await lock.guard(queryable(trx))
}

/**
 * `lock.transaction` with Kysely: runs `work` in a transaction that commits only while the lock is held.
 *
 * @throws LostError: nothing was written. What `work` throws is thrown, after a rollback.
 * @throws CommitUnknownError: the commit was not answered, and the server that could tell is gone
 */
export async function transaction<DB, T>(
  lock: Guardable,
  db: Kysely<DB>,
  work: (trx: Transaction<DB>) => Promise<T> | T,
  options: TransactionOptions = {},
): Promise<T> {
  let pin: Guard | undefined
  let done: { result: T } | undefined
  let failure: { error: unknown } | undefined
  const section = async (trx: Transaction<DB>): Promise<T> => {
    try {
      pin = await guard(lock, trx)
      const result = await work(trx)
      await pin.confirm()
      done = { result }
      return result
    } catch (error) {
      failure = { error }
      throw error
    }
  }
  try {
    return await db
      .transaction()
      .setIsolationLevel(options.isolationLevel ?? 'read committed')
      .execute(section)
  } catch (error) {
    // A rollback that fails, too, must not hide why there was one.
    if (failure) throw failure.error
    if (!pin || !done || stateOf(error)?.match(/^(2|4|F)/)) throw error
    if (await pin.wasCommitted()) return done.result
    throw error
  }
}

/** How strong a row lock is, from the strongest: what it keeps others from doing with the row. */
export type RowLockStrength = 'update' | 'no key update' | 'share' | 'key share'

export interface LockRowOptions {
  /**
   * `update`: for a delete, or a change of its key; `no key update`: for any other change; `share`: it does not change
   * meanwhile; `key share`: it is not deleted meanwhile. @default 'no key update'
   */
  readonly strength?: RowLockStrength | undefined
  /**
   * `wait`: until who has it ends; `skip`: as if the row were not there; `fail`: the server's error 55P03, and the
   * transaction has failed. @default 'wait'
   */
  readonly ifLocked?: 'wait' | 'skip' | 'fail' | undefined
}

/**
 * Locks the first row with these values until the transaction ends, and answers it; undefined where there is none, or
 * it is locked and `ifLocked` is `skip`.
 *
 * @throws NotInTransactionError
 */
export async function lockRow<DB, Table extends keyof DB & string>(
  trx: Transaction<DB>,
  table: Table,
  where: Partial<Selectable<DB[Table]>>,
  { strength = 'no key update', ifLocked = 'wait' }: LockRowOptions = {},
): Promise<Selectable<DB[Table]> | undefined> {
  if (!trx.isTransaction)
    throw new NotInTransactionError('a row lock ends with its transaction: begin one first')
  // biome-ignore lint/suspicious/noExplicitAny: the builder's types do not reach through a table that is a parameter
  let query: SelectQueryBuilder<any, any, object> = (trx as Transaction<any>)
    .selectFrom(table)
    .selectAll()
    .limit(1)
  for (const [column, value] of Object.entries(where)) {
    query = query.where(column, value === null ? 'is' : '=', value)
  }
  if (strength === 'update') query = query.forUpdate()
  else if (strength === 'no key update') query = query.forNoKeyUpdate()
  else if (strength === 'share') query = query.forShare()
  else query = query.forKeyShare()
  if (ifLocked === 'skip') query = query.skipLocked()
  else if (ifLocked === 'fail') query = query.noWait()
  return (await query.executeTakeFirst()) as Selectable<DB[Table]> | undefined
}
