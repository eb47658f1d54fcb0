import type { Socket } from 'node:net'
import pg from 'pg'
import type { Wire } from '../database/lane.ts'
import { quoteIdentifier } from '../database/migrations/quote.ts'
import type { PoolLike, Queryable } from '../database/ports.ts'
import { isPool } from '../database/target.ts'
import { BadOptionError } from '../errors.ts'
import type { Knowledge } from '../session/knowledge.ts'
import type { Session } from '../session/session.ts'
import { within } from '../within.ts'
import type { TransactionPool } from './line.ts'
import { grace, warnAfter } from './outcome.ts'
import type { TransactionHost } from './transaction.ts'

/** Connections of a pool of our own, where the client was given a connection string. */
const poolSize = 5
/** Milliseconds that they have to say goodbye. */
const closePatience = 1_000

export interface GuardsOptions {
  readonly schema: string
  readonly database: PoolLike | Queryable | string
  readonly knowledge: Knowledge
  /** For what is asked beside the transaction. */
  readonly wire: Wire
  readonly callTimeout: number
  distrust(session: Session): Promise<void>
  stillOpen(key: string, milliseconds: number): void
}

/** What guarded transactions need of one client. */
export class Guards implements TransactionHost {
  readonly schema: string
  readonly callTimeout: number
  readonly boot: () => string | undefined
  readonly distrust: (session: Session) => Promise<void>
  readonly #options: GuardsOptions
  readonly #timers = new Set<NodeJS.Timeout>()
  /** How to give up each transaction that is open. */
  readonly #open = new Set<() => void>()
  #isGivenUp = false
  #isClosed = false
  #ownPool: OwnPool | undefined

  constructor(options: GuardsOptions) {
    this.#options = options
    this.schema = options.schema
    this.callTimeout = options.callTimeout
    this.boot = () => options.knowledge.boot
    this.distrust = session => options.distrust(session)
  }

  pool(): TransactionPool {
    const { database } = this.#options
    if (typeof database === 'string') {
      this.#ownPool ??= new OwnPool(database)
      return this.#ownPool.pool as unknown as TransactionPool
    }
    if (isPool(database) && 'connect' in database) return database as unknown as TransactionPool
    throw new BadOptionError(
      'pool: transaction() needs a pool or a connection string; or use guard() in a transaction of your own',
    )
  }

  async status(transaction: string, boot: string): Promise<string | null> {
    if (this.#isClosed) return null
    const text = `select ${quoteIdentifier(this.schema)}.transaction_status($1::text::xid8, $2::text::uuid)`
    const [row] = await this.#options.wire.query(
      () => ({ text, values: [transaction, boot] }),
      this.callTimeout,
    )
    return row?.[0] ?? null
  }

  async end(transaction: string): Promise<void> {
    // By the lock on its own id, which it has for as long as it lives: a process id may be a pooler's, or another's by
    // now. Not one that waits for a standby: ended, it would be committed here and perhaps nowhere else.
    const text = `select pg_terminate_backend(l.pid) from pg_locks l
       where l.locktype = 'transactionid' and l.granted and l.mode = 'ExclusiveLock'
         and l.transactionid = $1::text::xid8::xid
         and not exists (select from pg_stat_activity a where a.pid = l.pid and a.wait_event = 'SyncRep')`
    await this.#options.wire.query(() => ({ text, values: [transaction] }), this.callTimeout)
  }

  endAfter(transaction: string, milliseconds: number): () => void {
    return this.#after(milliseconds + grace, () => this.end(transaction))
  }

  tellOf(key: string, transaction: string, boot: string): () => void {
    return this.#after(warnAfter, async () => {
      // Of a transaction of the caller's own nobody has told us whether it has ended.
      if ((await this.status(transaction, boot)) === 'in progress') this.#options.stillOpen(key, warnAfter)
    })
  }

  #after(milliseconds: number, run: () => Promise<void>): () => void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      run().catch(() => {})
    }, milliseconds)
    timer.unref()
    this.#timers.add(timer)
    return () => {
      this.#timers.delete(timer)
      clearTimeout(timer)
    }
  }

  onGivenUp(giveUp: () => void): () => void {
    if (this.#isGivenUp) giveUp()
    else this.#open.add(giveUp)
    return () => void this.#open.delete(giveUp)
  }

  /** What is open, and what is still begun, is not committed. */
  giveUp(): void {
    this.#isGivenUp = true
    for (const giveUp of [...this.#open]) giveUp()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const timer of this.#timers) clearTimeout(timer)
    await this.#ownPool?.end()
  }
}

/** A pool that can be ended while its clients are in use. */
class OwnPool {
  readonly pool: pg.Pool
  readonly #sockets = new Set<{ destroy(): void }>()

  constructor(connectionString: string) {
    const sockets = this.#sockets
    class Client extends pg.Client {
      constructor(config?: pg.ClientConfig) {
        super(config)
        const { stream } = (this as unknown as { connection: { stream: Socket } }).connection
        sockets.add(stream)
        stream.once('close', () => sockets.delete(stream))
      }
    }
    this.pool = new pg.Pool({ connectionString, Client, max: poolSize, allowExitOnIdle: true })
    this.pool.on('error', () => {})
  }

  async end(): Promise<void> {
    await within(this.pool.end(), closePatience)
    for (const socket of this.#sockets) socket.destroy()
  }
}
