/**
 * PostgreSQL's advisory locks of a transaction: nothing of ours in between, no time to live, no token. The server gives
 * them back when the transaction ends, whatever ends it. Those of a session are not offered: a pool hands the session to
 * somebody else, a transaction pooler hands it over in the middle, and a connection that is lost gives the lock to the
 * next one while the first still believes that it has it.
 */
import { createHash } from 'node:crypto'
import { endsConnection } from '../database/failure.ts'
import { quoteIdentifier, quoteLiteral } from '../database/migrations/quote.ts'
import { checkSchema, defaultSchema } from '../database/migrations/schema-name.ts'
import type { Queryable } from '../database/ports.ts'
import {
  BadKeyError,
  BadOptionError,
  CommitUnknownError,
  LockTimeoutError,
  NotInTransactionError,
} from '../errors.ts'
import { type Duration, fullKey, milliseconds } from '../options.ts'
import { explainTransaction } from './failure.ts'
import type { TransactionClient, TransactionPool } from './line.ts'

/** Text; or one 64-bit or two 32-bit numbers as they are, which meet locks that an application takes already. */
export type AdvisoryKey = string | bigint | readonly [number, number]

export interface AdvisoryLockOptions {
  /** Beside others that are shared. @default false */
  readonly shared?: boolean | undefined
  /** `true`: for ever; `false`: one attempt; or how long. The transaction's own `lock_timeout` does not count. @default true */
  readonly wait?: boolean | Duration | undefined
  /** Part of what text keys are hashed with; a bounded wait calls a function in it. @default 'fencepost' */
  readonly schema?: string | undefined
}

/**
 * The 64-bit number of a text key, on every server and in every language: the first eight bytes, as a signed
 * big-endian integer, of the SHA-256 of the UTF-8 bytes of `fencepost:advisory`, a NUL, the schema, a NUL and the key.
 *
 * @throws BadKeyError
 */
export function advisoryKey(key: string, schema: string = defaultSchema): bigint {
  const text = `fencepost:advisory\0${checkSchema(schema)}\0${fullKey(undefined, key)}`
  return createHash('sha256').update(text).digest().readBigInt64BE()
}

/**
 * Takes an advisory lock until the transaction ends (or rolls back to a savepoint from before). False: it was not free,
 * within `wait`; the transaction is as usable as before then. Taken twice by one transaction, it is held.
 *
 * @param transaction what runs `query(text, values)` inside the transaction
 * @throws NotInTransactionError, TransactionAbortedError, ReadOnlyTransactionError (a standby), BadKeyError,
 * BadOptionError, DatabaseError (with the server's 40P01 as `cause`: a deadlock)
 */
export async function advisoryLock(
  transaction: Queryable,
  key: AdvisoryKey,
  options: AdvisoryLockOptions = {},
): Promise<boolean> {
  return (await take(transaction, key, options)).isTaken
}

async function take(
  transaction: Queryable,
  key: AdvisoryKey,
  options: AdvisoryLockOptions,
): Promise<{ isTaken: boolean; id: string }> {
  const schema = checkSchema(options.schema ?? defaultSchema)
  const numbers = checkKey(key, schema)
  const wait = checkWait(options.wait ?? true)
  try {
    // Assigned by the first statement and found by the second: only a transaction lasts from one to the other.
    const begun = await transaction.query(
      `select pg_current_xact_id()::text as id, current_setting('lock_timeout') as timeout`,
      [],
    )
    const { id, timeout } = begun.rows[0] as { id: string; timeout: string }
    const call = lockCall(schema, numbers, options.shared === true, wait, timeout)
    // With literals: not every client gives its values the types that are asked for.
    const { rows } = await transaction.query(
      `select case when pg_current_xact_id_if_assigned()::text = '${id}' then ${call} end as outcome`,
      [],
    )
    const { outcome } = rows[0] as { outcome: string | null }
    if (outcome !== null) return { isTaken: outcome === 'true', id }
  } catch (error) {
    throw explainTransaction(error, schema)
  }
  throw new NotInTransactionError('an advisory lock ends with its transaction: begin one first')
}

/**
 * Runs `section` in a transaction that holds an advisory lock, and commits.
 *
 * @throws LockTimeoutError: it was not free, within `wait`. What `section` throws is thrown, after a rollback.
 * @throws CommitUnknownError: the connection broke before the commit was answered.
 */
export async function withAdvisoryLock<T>(
  pool: TransactionPool,
  key: AdvisoryKey,
  section: (client: TransactionClient) => Promise<T> | T,
  options: AdvisoryLockOptions = {},
): Promise<T> {
  const client = await pool.connect()
  let isBroken = false
  const onError = () => {
    isBroken = true
  }
  client.on('error', onError)
  try {
    await client.query('begin')
    const { isTaken, id } = await take(client, key, options)
    if (!isTaken) throw new LockTimeoutError(String(key), waited(options))
    const result = await section({ query: (...values) => client.query(...values) })
    await client.query('commit').catch(error => {
      if (!endsConnection(error)) throw error
      isBroken = true
      throw new CommitUnknownError(String(key), id, error)
    })
    return result
  } catch (error) {
    if (!isBroken) await client.query('rollback').catch(onError)
    throw error
  } finally {
    client.removeListener('error', onError)
    if (isBroken) client.on('error', () => {})
    client.release(isBroken)
  }
}

function lockCall(
  schema: string,
  numbers: readonly string[],
  shared: boolean,
  wait: boolean | number,
  timeout: string,
): string {
  const type = numbers.length === 2 ? 'int' : 'bigint'
  const values = numbers.map(number => `'${number}'::${type}`).join(', ')
  const suffix = shared ? '_shared' : ''
  if (wait === false) return `pg_try_advisory_xact_lock${suffix}(${values})::text`
  if (wait === true) {
    // Its answer is void.
    const taken = `pg_advisory_xact_lock${suffix}(${values}) is not null`
    if (timeout === '0') return `(${taken})::text`
    // The caller's own timeout is put aside for as long; where the wait fails, the rollback brings it back.
    return `case when ${setLockTimeout('0')} then case when ${taken} then (${setLockTimeout(timeout)})::text end end`
  }
  return `${quoteIdentifier(schema)}.advisory_lock_within(array[${values}]::bigint[], ${shared}, ${wait})::text`
}

function setLockTimeout(value: string): string {
  return `set_config('lock_timeout', ${quoteLiteral(value)}, true) is not null`
}

function checkKey(key: AdvisoryKey, schema: string): string[] {
  if (typeof key === 'string') return [String(advisoryKey(key, schema))]
  if (typeof key === 'bigint' && BigInt.asIntN(64, key) === key) return [String(key)]
  if (Array.isArray(key) && key.length === 2 && key.every(isInt32)) return key.map(String)
  throw new BadKeyError(
    'an advisory key is text, a bigint of 64 bits with a sign, or two whole numbers of 32 bits',
  )
}

function isInt32(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) === ((value as number) | 0)
}

function checkWait(wait: boolean | Duration): boolean | number {
  if (typeof wait === 'boolean') return wait
  const time = milliseconds('wait', wait, 0, 2 ** 31 - 1)
  // For the server, 0 is for ever.
  return time === 0 ? false : Math.ceil(time)
}

function waited({ wait }: AdvisoryLockOptions): number {
  const time = checkWait(wait ?? true)
  if (time === true) throw new BadOptionError('wait: for ever')
  return time === false ? 0 : time
}
