import { AsyncLocalStorage } from 'node:async_hooks'
import { withDeadline } from '../database/deadline.ts'
import { endsConnection, explain, sqlState } from '../database/failure.ts'
import type { RowsResult } from '../database/ports.ts'
import {
  BadOptionError,
  LostError,
  NestedTransactionError,
  NotInTransactionError,
  TransactionTimeoutError,
  UnreachableError,
  WrongDatabaseError,
} from '../errors.ts'
import { asTimeout } from './failure.ts'
import {
  checkPlace,
  type GuardHost,
  lastStatement,
  lossOf,
  type Pinnable,
  type Pinned,
  pinStatement,
} from './guard.ts'
import { Line, type PoolClientLike, type TransactionClient, type TransactionPool } from './line.ts'
import { grace, wasCommitted } from './outcome.ts'

export interface TransactionOptions {
  /** @default 'read committed' */
  readonly isolationLevel?: 'read committed' | 'repeatable read' | 'serializable' | undefined
}

export interface TransactionHost extends GuardHost {
  /** Milliseconds that the message which begins a transaction may take: nothing else bounds it yet. */
  readonly callTimeout: number
  /** @throws BadOptionError where there is no pool */
  pool(): TransactionPool
  /** Calls back once the client closes and waits no longer. @returns what takes that back */
  onGivenUp(giveUp: () => void): () => void
}

const levels = ['read committed', 'repeatable read', 'serializable'] as const
/** A serialization failure of the pin itself, or a new life of the server: nothing has run yet. */
const pinTries = 3

/** The grants under which the caller is inside a transaction of ours already. */
const around = new AsyncLocalStorage<readonly Pinnable[]>()

/**
 * Runs `work` in a transaction that commits only while nobody else can have been granted the key: the grant is pinned
 * first, in the message that begins the transaction, and looked at again in the message that commits it.
 *
 * @throws LostError: nothing was written. @throws CommitUnknownError, NestedTransactionError, TransactionTimeoutError
 */
export async function guardedTransaction<T>(
  host: TransactionHost,
  grant: Pinnable,
  work: (client: TransactionClient) => Promise<T> | T,
  options: TransactionOptions = {},
): Promise<T> {
  const level = options.isolationLevel ?? 'read committed'
  if (!levels.includes(level)) throw new BadOptionError(`isolationLevel: want one of ${levels.join(', ')}`)
  if (typeof work !== 'function') throw new BadOptionError('transaction: want a function to run in it')
  const outer = around.getStore() ?? []
  if (outer.some(({ session, token }) => session === grant.session && token === grant.token)) {
    throw new NestedTransactionError(
      `a transaction under ${JSON.stringify(grant.key)} is open around this one: use its client`,
    )
  }
  const client = await connect(host, grant)
  const line = new Line(client)
  const forget = host.onGivenUp(() => line.giveUp(closed(grant)))
  try {
    const pinned = await begin(host, grant, line, level)
    line.check()
    const inside = new Inside(client)
    const ended = bound(host, grant.key, line, pinned)
    try {
      const result = await Promise.race([
        around.run([...outer, grant], async () => await work(inside)),
        line.breaking,
      ])
      inside.end()
      // What is sent from here on is answered, or found out.
      forget()
      line.check()
      await commit(host, grant, line, pinned)
      return result
    } catch (error) {
      inside.end()
      if (!line.isBroken) await line.rollBack()
      // It may be at work: then it does not notice that its client has gone.
      if (line.isGivenUp) host.end(pinned.transaction).catch(() => {})
      throw asTimeout(error) ?? error
    } finally {
      ended()
    }
  } finally {
    forget()
    line.release()
  }
}

/** What `work` is given: refuses when its transaction is over, for the client may be in another one by then. */
class Inside implements TransactionClient {
  readonly #client: PoolClientLike
  #isOver = false

  constructor(client: PoolClientLike) {
    this.#client = client
  }

  // All that the driver takes: a text, an object, a cursor, a stream.
  query(...values: Parameters<TransactionClient['query']>): ReturnType<TransactionClient['query']> {
    if (this.#isOver) throw new NotInTransactionError('the transaction that this client was for is over')
    return this.#client.query(...values)
  }

  end(): void {
    this.#isOver = true
  }
}

async function connect(host: TransactionHost, grant: Pinnable): Promise<PoolClientLike> {
  const connecting = host.pool().connect()
  let forget = (): void => {}
  const givingUp = new Promise<never>((_, reject) => {
    forget = host.onGivenUp(() => reject(closed(grant)))
  })
  try {
    return await Promise.race([connecting, givingUp])
  } catch (error) {
    // Should it come all the same, nobody wants it any more.
    connecting.then(client => client.release()).catch(() => {})
    throw explain(error, host.schema)
  } finally {
    forget()
  }
}

function closed({ key }: Pinnable): LostError {
  return new LostError(key, 'shutdown')
}

async function begin(host: TransactionHost, grant: Pinnable, line: Line, level: string): Promise<Pinned> {
  const statement = `begin isolation level ${level}; ${pinStatement(host.schema, grant)}`
  for (let tries = 1; ; tries += 1) {
    let failure: unknown
    try {
      const asked = Promise.race([line.client.query(statement), line.givingUp])
      const results = (await withDeadline(asked, host.callTimeout)) as unknown as RowsResult[]
      const pinned = results[1]?.rows[0] as Pinned | undefined
      if (!pinned) throw await lossOf(host, grant)
      await checkPlace(host, grant, pinned)
      return pinned
    } catch (error) {
      failure = error
    }
    // The transaction that is refused must not outlive the question why.
    if (endsConnection(failure) && sqlState(failure) !== '25006') line.broke(failure)
    else if (!line.isBroken) await line.rollBack()
    if (line.isBroken) throw explain(failure, host.schema)
    const isStale = sqlState(failure) === '40001'
    if (!isStale && !(failure instanceof WrongDatabaseError)) throw explain(failure, host.schema)
    if (tries < pinTries) continue
    throw isStale ? await lossOf(host, grant, failure) : failure
  }
}

/**
 * Warns once when it has been open for long. Should the server not have ended it in time, or the news be lost, its
 * backend is ended and its connection given up: `work` need not notice either, nor settle.
 */
function bound(host: TransactionHost, key: string, line: Line, pinned: Pinned): () => void {
  const forget = host.tellOf(key, pinned.transaction, pinned.boot as string)
  const late = setTimeout(() => {
    line.giveUp(
      new TransactionTimeoutError(
        'the transaction took longer than it may: it was given up, and nothing was written',
      ),
    )
  }, pinned.milliseconds + grace)
  late.unref()
  return () => {
    clearTimeout(late)
    forget()
  }
}

/** Where the answer is lost, what became of it is asked for over another connection. */
async function commit(host: TransactionHost, grant: Pinnable, line: Line, pinned: Pinned): Promise<void> {
  let results: RowsResult[]
  try {
    const asked = line.client.query(`${lastStatement(host.schema, grant, pinned)}; commit`)
    results = (await withDeadline(asked, pinned.milliseconds + grace)) as unknown as RowsResult[]
  } catch (error) {
    if (sqlState(error) === 'FP003') throw await lossOf(host, grant, error)
    if (sqlState(error) === '40001') throw await serializationFailure(host, grant, line, error)
    if (!endsConnection(error)) throw error
    line.broke(error)
    if (await wasCommitted(host, grant.key, pinned, error)) return
    throw new UnreachableError('the connection was lost before the commit: nothing was written', {
      cause: error,
    })
  }
  const [row] = (results[0]?.rows ?? []) as { transaction: string | null }[]
  if (row?.transaction === pinned.transaction) return
  throw new NotInTransactionError(
    'the transaction was ended inside: what was done before that may be committed, and what came later was not guarded',
  )
}

/** The data's own, or the pin's after a rollback to a savepoint from before it. */
async function serializationFailure(
  host: TransactionHost,
  grant: Pinnable,
  line: Line,
  error: unknown,
): Promise<unknown> {
  await line.rollBack()
  const lost = await lossOf(host, grant, error)
  return grant.session.isOver || !grant.session.held.has(grant.grant) ? lost : error
}
