import { inspect } from 'node:util'
import type { RunningWork } from '../closing/running-work.ts'
import type { Queryable } from '../database/ports.ts'
import { BadOptionError, type FencepostError, type LossReason, LostError, NotHeldError } from '../errors.ts'
import { type Guard, guard, type Pinnable } from '../guard/guard.ts'
import type { TransactionClient } from '../guard/line.ts'
import { guardedTransaction, type TransactionHost, type TransactionOptions } from '../guard/transaction.ts'
import { whileAlive } from '../keep-alive.ts'
import type { Session } from '../session/session.ts'
import type { Run } from './run.ts'

/** What a handle is now. `degraded`: held, though the last renewal failed. `suspended`: not held until the next answer. */
export type LockState = 'held' | 'degraded' | 'suspended' | 'released' | 'lost'

/** What `release` found: it was given up now, had been before, or was lost, and why. */
export type ReleaseOutcome = 'released' | 'already' | LossReason

/** How a key is held: alone, beside other readers, or as some of a semaphore's permits. */
export type LockMode = 'exclusive' | 'shared' | 'permits'

export interface LockDetails {
  /** Of several: all of them, for people. */
  readonly key: string
  /** The keys, where there are several. */
  readonly keys: readonly string[] | undefined
  readonly mode: LockMode
  /** How many of a semaphore's. */
  readonly permits: number | undefined
  readonly label: string | undefined
  readonly metadata: unknown
}

/** What the database has said of a grant. */
export interface Granted {
  /** Decimal text; of several keys, of the first. */
  readonly token: string
  /** What a fence compares, where that is not the token. */
  readonly level: string | undefined
  /** By key, where there are several. */
  readonly tokens: ReadonlyMap<string, string> | undefined
}

/** What a lock needs of the client that granted it. */
export interface LockHost {
  readonly guards: TransactionHost
  readonly running: RunningWork
  downgrade(lock: Lock, session: Session): Promise<string>
  /** @param since when it was granted, in ticks of the metrics */
  release(lock: Lock, session: Session, since: number): Promise<'released'>
  lost(lock: Lock, session: Session, reason: LossReason, since: number): void
}

/**
 * A lock that was granted. Every member that says something about holding looks at the clock at that moment, before
 * any timer has fired; a loss is final, and told once.
 */
export class Lock implements AsyncDisposable {
  static {
    // Not a gate: a log line must not throw.
    Object.defineProperty(Lock.prototype, inspect.custom, {
      value(this: Lock): string {
        this.#isExposed ||= this.#end === undefined
        const token = this.#isExposed && !this.#tokens ? `token: ${this.ownToken}n, ` : ''
        return `Lock { key: ${JSON.stringify(this.key)}, ${token}state: '${this.state}' }`
      },
    })
  }

  /** Of several keys: all of them, for people; {@link tokens} has them one by one. */
  readonly key: string
  readonly label: string | undefined
  readonly metadata: unknown
  /** How many permits of a semaphore; undefined for locks. */
  readonly permits: number | undefined
  #mode: LockMode
  readonly #token: string
  #level: string
  readonly #tokens: ReadonlyMap<string, string> | undefined
  /** How often it is to be released: once more for each re-entry. */
  #uses = 1
  #run: Run | undefined
  readonly #session: Session
  readonly #host: LockHost
  readonly #since: number
  #end: 'released' | LossReason | undefined
  #controller: AbortController | undefined
  #shutdown: LostError | undefined
  #releasing: Promise<'released'> | undefined
  /** Somebody outside may know its token, or a transaction has pinned it: the database cannot tell it from who follows. */
  #isExposed = false

  /** @internal */
  constructor(details: LockDetails, granted: Granted, session: Session, host: LockHost, since: number) {
    this.key = details.key
    this.label = details.label
    this.metadata = details.metadata
    this.permits = details.permits
    this.#mode = details.mode
    this.#token = granted.token
    this.#level = granted.level ?? granted.token
    this.#tokens = granted.tokens
    this.#session = session
    this.#host = host
    this.#since = since
  }

  /**
   * The fencing token: it rises with every grant of the key. To be read while the lock is held; what was read then can be
   * read again after the release.
   *
   * @throws LostError after a loss, NotHeldError while suspended, and after a release when it was not read before: the
   * key may have been passed on inside this process, which is done only while the database need not tell one token from
   * the next
   * @throws BadOptionError where there are several keys: each has a token of its own, in {@link tokens}
   */
  get token(): bigint {
    if (this.#tokens)
      throw new BadOptionError(`${this.key}: several keys have several tokens; read \`tokens\``)
    this.#expose()
    return BigInt(this.ownToken)
  }

  /**
   * What fences compare: the token of an exclusive lock. Those who hold a key together have one level, that of the last
   * exclusive lock before them, and tokens of their own.
   *
   * @throws as {@link token} does
   */
  get level(): bigint {
    if (this.#tokens)
      throw new BadOptionError(`${this.key}: several keys have several tokens; read \`tokens\``)
    this.#expose()
    return BigInt(this.#level)
  }

  /** The token of each key, of one as of several. @throws as {@link token} does */
  get tokens(): ReadonlyMap<string, bigint> {
    this.#expose()
    const tokens = this.#tokens ?? new Map([[this.key, this.ownToken]])
    return new Map([...tokens].map(([key, token]) => [key, BigInt(token)]))
  }

  get mode(): LockMode {
    return this.#mode
  }

  #expose(): void {
    const state = this.state
    if (state === 'released' && !this.#isExposed) {
      throw new NotHeldError(
        `${JSON.stringify(this.key)} is released already: read its token while it is held`,
        this.key,
      )
    }
    if (state !== 'released') this.assertHeld()
    this.#isExposed = true
  }

  // Accessors, and no properties: nobody prints or serializes them by accident.

  /** @internal Decimal text. */
  get ownToken(): string {
    return this.#token
  }

  /** @internal Decimal text. */
  get ownLevel(): string {
    return this.#level
  }

  /** @internal */
  get isOfSeveral(): boolean {
    return this.#tokens !== undefined
  }

  /** @internal Of each key. */
  get grants(): { key: string; token: string }[] {
    if (!this.#tokens) return [{ key: this.key, token: this.ownToken }]
    return [...this.#tokens].map(([key, token]) => ({ key, token }))
  }

  /** @internal Held once more: the last release counts. */
  reenter(): this {
    this.#uses += 1
    return this
  }

  /** @internal The run that it is part of. */
  get run(): Run | undefined {
    return this.#run
  }

  set run(run: Run | undefined) {
    this.#run = run
  }

  /** @internal Whether who follows may have its turn without a word to the database. */
  get isPassable(): boolean {
    return !this.#isExposed
  }

  get state(): LockState {
    if (this.#end === undefined) {
      const trust = this.#session.trust()
      if (trust !== 'over') return trust
    }
    return this.#end === 'released' ? 'released' : 'lost'
  }

  /** Why it was lost, if it was. */
  get lossReason(): LossReason | undefined {
    return this.state === 'lost' ? (this.#end as LossReason) : undefined
  }

  /** Milliseconds until trust ends unless a renewal is answered; 0 when it is not held. */
  get remaining(): number {
    return this.#end === undefined ? this.#session.remaining() : 0
  }

  /** Aborted with a {@link LostError} when the lock is lost, or about to be because the client closes. */
  get signal(): AbortSignal {
    const state = this.state
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (state === 'lost') this.#controller.abort(new LostError(this.key, this.#end as LossReason))
      else if (this.#shutdown) this.#controller.abort(this.#shutdown)
    }
    return this.#controller.signal
  }

  /** @throws LostError when it is lost, NotHeldError when it is released or suspended */
  assertHeld(): void {
    const state = this.state
    if (state === 'held' || state === 'degraded') return
    throw this.#refusal(state)
  }

  /**
   * Renews the session that holds it, now, and with it all that the session holds.
   *
   * @throws LostError, NotHeldError, UnreachableError
   */
  async renew(): Promise<void> {
    if (this.#end !== undefined) throw this.#refusal(this.state)
    await whileAlive(this.#session.renew(this.key))
    this.assertHeld()
  }

  /**
   * Gives it up: not held any more from this call on. Never throws, also not after a loss or while the database is
   * away: it is tried again in the background then, and the session's end does it at the latest.
   */
  release(): Promise<ReleaseOutcome> {
    if (this.state === 'lost') return Promise.resolve(this.#end as LossReason)
    if (this.#releasing !== undefined) return this.#releasing.then(() => 'already')
    this.#uses -= 1
    if (this.#uses > 0) return Promise.resolve('released')
    this.#end = 'released'
    this.#releasing = this.#host.release(this, this.#session, this.#since)
    return this.#releasing
  }

  /**
   * Runs `work` in a transaction of the client's pool that commits only while this lock is held: its grant is pinned
   * first, and nobody else is granted the key until the transaction has ended, whatever expires meanwhile. It may take
   * what is left of the ttl when it begins; a stuck one is ended.
   *
   * @throws LostError: it was not held, and nothing was written. What `work` throws is thrown, after a rollback.
   * @throws CommitUnknownError: the commit was not answered, and the server that could tell is gone.
   */
  async transaction<T>(
    work: (client: TransactionClient) => Promise<T> | T,
    options: TransactionOptions = {},
  ): Promise<T> {
    this.assertHeld()
    this.#isExposed = true
    const { guards, running } = this.#host
    return await this.#unlessReleased(
      whileAlive(running.run(guardedTransaction(guards, this.#grant(), work, options))),
    )
  }

  /**
   * Pins this lock in a transaction of your own, until that ends. To be called before the first read of guarded data.
   *
   * @param transaction what runs `query(text, values)` inside the transaction: a client of `pg`, or an adapter
   * @throws LostError: it is not held, and the transaction is as usable as before; at repeatable read and above a
   * hand-over after the snapshot ends the transaction, with the server's 40001 as `cause`
   * @throws NotInTransactionError, WrongDatabaseError
   */
  async guard(transaction: Queryable): Promise<Guard> {
    this.assertHeld()
    this.#isExposed = true
    return await this.#unlessReleased(guard(this.#host.guards, this.#grant(), transaction))
  }

  /**
   * Makes an exclusive lock a shared one without letting go: readers who are next come in beside it. The token stays.
   * There is no way back: two readers who both wanted it would wait for each other. Release, and acquire again.
   *
   * @throws LostError, NotHeldError, UnreachableError
   * @throws BadOptionError: permits and several keys have no other mode; a guarded transaction is open
   */
  async downgrade(): Promise<void> {
    this.assertHeld()
    if (this.#mode === 'shared') return
    if (this.#mode === 'permits' || this.#tokens) {
      throw new BadOptionError(
        `${JSON.stringify(this.key)}: only an exclusive lock of one key can be downgraded`,
      )
    }
    this.#isExposed = true
    this.#level = await this.#unlessReleased(whileAlive(this.#host.downgrade(this, this.#session)))
    this.#mode = 'shared'
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }

  /** @internal The client closes: whoever works under it is told while it is still held. */
  announceShutdown(): void {
    if (this.#end !== undefined) return
    this.#shutdown = new LostError(this.key, 'shutdown')
    this.#controller?.abort(this.#shutdown)
  }

  /** @internal */
  lose(reason: LossReason): void {
    if (this.#end !== undefined) return
    this.#end = reason
    this.#host.lost(this, this.#session, reason, this.#since)
    this.#controller?.abort(new LostError(this.key, reason))
  }

  /** To the database a lock that was released meanwhile is not there; to its holder that is no loss. */
  async #unlessReleased<T>(pinning: Promise<T>): Promise<T> {
    try {
      return await pinning
    } catch (error) {
      throw error instanceof LostError && this.#end === 'released' ? this.#refusal('released') : error
    }
  }

  #grant(): Pinnable {
    if (this.#tokens) {
      throw new BadOptionError(
        `${this.key}: one call pins one key. Say assert_held(key, token) for each of \`tokens\` in your transaction`,
      )
    }
    return {
      key: this.key,
      token: this.ownToken,
      grant: this.run?.grant ?? this.ownToken,
      session: this.#session,
    }
  }

  #refusal(state: LockState): FencepostError {
    if (state === 'lost') return new LostError(this.key, this.#end as LossReason)
    const why =
      state === 'suspended' ? 'suspended until the database answers: a clock was moved' : 'released already'
    return new NotHeldError(`${JSON.stringify(this.key)} is ${why}`, this.key)
  }
}
