import { Backoff } from '../database/backoff.ts'
import { withDeadline } from '../database/deadline.ts'
import { endsConnection, sqlState } from '../database/failure.ts'
import { quoteIdentifier, quoteLiteral } from '../database/migrations/quote.ts'
import type { RowsResult } from '../database/ports.ts'
import { BadOptionError, CommitUnknownError, LostError, UnreachableError } from '../errors.ts'
import { checkPinned, type GuardHost, type Pinnable, type Pinned } from './guard.ts'

/** What `lock.transaction` runs in: a client of the user's pool, inside a transaction. */
export interface TransactionClient {
  // biome-ignore lint/suspicious/noExplicitAny: the rows' shape is the query's
  query(text: string, values?: unknown[]): Promise<{ rows: any[]; rowCount: number | null }>
}

/** The members of a `pg.PoolClient` that are used. */
export interface PoolClientLike extends TransactionClient {
  readonly processID?: number | null
  release(destroy?: boolean): void
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
}

export interface TransactionPool {
  connect(): Promise<PoolClientLike>
}

export interface TransactionOptions {
  /** @default 'read committed' */
  readonly isolationLevel?: 'read committed' | 'repeatable read' | 'serializable' | undefined
}

export interface TransactionHost extends GuardHost {
  /** @throws BadOptionError where there is no pool */
  pool(): TransactionPool
  /** committed, aborted, in progress; null: it cannot be asked any more. @throws when the database cannot be reached */
  status(transaction: string, boot: string): Promise<string | null>
  /** Ends a backend that goes on with a transaction of ours past its time. */
  terminate(processId: number): Promise<void>
  /** It has been open for so long, in milliseconds. */
  stillOpen(key: string, milliseconds: number): void
  readonly warnAfter: number
}

const levels = ['read committed', 'repeatable read', 'serializable'] as const
/** A serialization failure of the pin itself: nothing has run yet, so it is tried again. */
const pinTries = 3
/** Milliseconds past its own timeout after which a backend is ended from outside. */
const grace = 1_000
const rollbackTimeout = 5_000

/**
 * Runs `work` in a transaction that commits only while nobody else can have been granted the key: the grant is pinned
 * first, in the message that begins the transaction, and looked at again in the message that commits it.
 *
 * @throws LostError: nothing was written. @throws CommitUnknownError
 */
export async function guardedTransaction<T>(
  host: TransactionHost,
  grant: Pinnable,
  work: (client: TransactionClient) => Promise<T> | T,
  options: TransactionOptions = {},
): Promise<T> {
  const level = options.isolationLevel ?? 'read committed'
  if (!levels.includes(level)) throw new BadOptionError(`isolationLevel: want one of ${levels.join(', ')}`)
  const client = await host.pool().connect()
  let fail: (error: unknown) => void = () => {}
  const breaking = new Promise<never>((_, reject) => {
    fail = reject
  })
  breaking.catch(() => {})
  let broken = false
  const onBroken = (error: unknown): void => {
    broken = true
    fail(error)
  }
  client.on('error', onBroken)
  try {
    const pinned = await begin(host, grant, client, level, onBroken)
    const ended = bound(host, grant.key, client, pinned)
    try {
      const result = await Promise.race([work(client), breaking])
      await commit(host, grant, client, pinned, onBroken)
      return result
    } catch (error) {
      if (!broken) await rollBack(client, onBroken)
      throw error
    } finally {
      ended()
    }
  } finally {
    client.removeListener('error', onBroken)
    // A client that is destroyed may still have an error to tell, and without a listener that ends the process.
    if (broken) client.on('error', () => {})
    client.release(broken)
  }
}

type OnBroken = (error: unknown) => void

async function begin(
  host: TransactionHost,
  grant: Pinnable,
  client: PoolClientLike,
  level: string,
  onBroken: OnBroken,
): Promise<Pinned> {
  const schema = quoteIdentifier(host.schema)
  const statement =
    `begin isolation level ${level}; select p.transaction::text, p.boot::text, p.milliseconds ` +
    `from ${schema}.pin(${quoteLiteral(grant.key)}, ${quoteLiteral(grant.token)}) p`
  for (let tries = 1; ; tries += 1) {
    try {
      const results = (await client.query(statement)) as unknown as RowsResult[]
      const pinned = results[1]?.rows[0] as Pinned | undefined
      await checkPinned(host, grant, pinned)
      return pinned as Pinned
    } catch (error) {
      if (endsConnection(error)) onBroken(error)
      else await rollBack(client, onBroken)
      if (sqlState(error) !== '40001') throw error
      if (tries === pinTries) throw new LostError(grant.key, 'expired')
    }
  }
}

/** Warns once when it has been open for long, and ends its backend should the server not have done so in time. */
function bound(host: TransactionHost, key: string, client: PoolClientLike, pinned: Pinned): () => void {
  const warning = setTimeout(() => host.stillOpen(key, host.warnAfter), host.warnAfter)
  const end = setTimeout(() => {
    if (client.processID) host.terminate(client.processID).catch(() => {})
  }, pinned.milliseconds + grace)
  return () => {
    clearTimeout(warning)
    clearTimeout(end)
  }
}

/** Where the answer is lost, what became of it is asked for over another connection. */
async function commit(
  host: TransactionHost,
  grant: Pinnable,
  client: PoolClientLike,
  pinned: Pinned,
  onBroken: OnBroken,
): Promise<void> {
  const schema = quoteIdentifier(host.schema)
  const again = `select ${schema}.pin_again(${quoteLiteral(grant.key)}, ${quoteLiteral(grant.token)})`
  try {
    await withDeadline(client.query(`${again}; commit`), pinned.milliseconds + grace)
  } catch (error) {
    if (sqlState(error) === 'FP003') {
      await host.distrust(grant.session)
      throw Object.assign(new LostError(grant.key, grant.session.lossReason ?? 'expired'), { cause: error })
    }
    if (!endsConnection(error)) throw error
    onBroken(error)
    if (await wasCommitted(host, grant.key, client.processID, pinned, error)) return
    throw new UnreachableError('the connection was lost before the commit: nothing was written', {
      cause: error,
    })
  }
}

/** @throws CommitUnknownError where nobody can say */
async function wasCommitted(
  host: TransactionHost,
  key: string,
  processId: number | null | undefined,
  { transaction, boot, milliseconds }: Pinned,
  cause: unknown,
): Promise<boolean> {
  const until = performance.now() + milliseconds + grace
  const backoff = new Backoff(50, 1_000)
  for (;;) {
    const status = await host.status(transaction, boot).catch(() => undefined)
    if (status === 'committed') return true
    if (status === 'aborted') return false
    if (status === null || performance.now() > until) throw new CommitUnknownError(key, transaction, cause)
    // The backend may not have noticed that its client is gone.
    if (status === 'in progress' && processId) await host.terminate(processId).catch(() => {})
    await backoff.wait()
  }
}

async function rollBack(client: PoolClientLike, onBroken: OnBroken): Promise<void> {
  await withDeadline(client.query('rollback'), rollbackTimeout).catch(onBroken)
}
