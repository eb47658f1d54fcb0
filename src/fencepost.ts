import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { Calls } from './database/calls.ts'
import type { Connection } from './database/connection.ts'
import { FallbackWire, Lane, type Wire } from './database/lane.ts'
import { Listener } from './database/listener.ts'
import { type MigrateResult, migrate } from './database/migrate.ts'
import { checkSchema, defaultSchema } from './database/migrations/schema-name.ts'
import type { PoolLike, Queryable } from './database/ports.ts'
import { checkDatabase, connector, isPool, QueryWire } from './database/target.ts'
import { AbortedError, BadOptionError, ClosedError, LostError, UnhealthyError } from './errors.ts'
import { Guards } from './guard/host.ts'
import { whileAlive } from './keep-alive.ts'
import { Asker } from './lock/asker.ts'
import type { Desk } from './lock/desk.ts'
import { Line } from './lock/line.ts'
import type { Lock } from './lock/lock.ts'
import { Request, type RequestOwner } from './lock/request.ts'
import { Returner } from './lock/returner.ts'
import { Watch } from './lock/watch.ts'
import {
  checkLabel,
  checkMetadata,
  checkNamespace,
  checkOptions,
  type Duration,
  fullKey,
  milliseconds,
  wholeNumber,
} from './options.ts'
import { Knowledge } from './session/knowledge.ts'
import type { Session, SessionHost } from './session/session.ts'
import { Sessions } from './session/sessions.ts'

export interface FencepostOptions {
  /**
   * A `pg.Pool` (its options are read; connections of our own are opened by them, and none of its is taken), a
   * connection string, or anything with `query(text, values)`.
   */
  readonly pool?: PoolLike | Queryable | string | undefined
  /** The same as `pool` with a string. */
  readonly connectionString?: string | undefined
  /** @default 'fencepost' */
  readonly schema?: string | undefined
  /** How long a lock outlives its holder: 1 s up to the schema's `max_ttl`. @default '30s' */
  readonly ttl?: Duration | undefined
  /** A prefix of every key of this client, followed by a colon. @default none */
  readonly namespace?: string | undefined
  /** Who this is, for people. @default the host's name and the process id */
  readonly owner?: string | undefined
  /**
   * Whether to be woken by notifications. `false`: poll. `{ connectionString }`: listen there, where the pool goes
   * through a transaction pooler. @default true, with a probe that falls back to polling
   */
  readonly listen?: boolean | { readonly connectionString: string } | undefined
  /** The longest time between two looks of somebody who waits. @default '1s' */
  readonly poll?: Duration | undefined
  /** Acquires that may wait at once in this client. @default 10,000 */
  readonly maxPending?: number | undefined
  /** Acquires of one key that may wait at once in this client. @default unbounded */
  readonly maxPendingPerKey?: number | undefined
  /** Asked before each renewal: a process that says no for a whole ttl gives up all that it holds. */
  readonly healthy?: (() => boolean) | undefined
}

export interface AcquireOptions {
  /** @default the client's */
  readonly ttl?: Duration | undefined
  /** How long to wait; 0 is one attempt. @default for ever */
  readonly timeout?: Duration | undefined
  /** Gives the acquire up. After the grant it has no effect. */
  readonly signal?: AbortSignal | undefined
  /** Up to 200 bytes that say what for. */
  readonly label?: string | undefined
  /** Up to 1,000 bytes of JSON. */
  readonly metadata?: unknown
}

export type TryAcquireOptions = Omit<AcquireOptions, 'timeout'>

export interface CloseOptions {
  /** How long running sections of `withLock` are awaited. @default '5s' */
  readonly timeout?: Duration | undefined
}

/** Milliseconds after which a call counts as lost: it waits for nothing but commits. */
const callTimeout = 10_000
const pingInterval = 5_000
const longest = Number.POSITIVE_INFINITY

/**
 * A client. It opens its own connections when first used (one for heartbeats and notifications, one to ask, one to
 * give back), and one session in the database for each time to live in use.
 */
export class Fencepost implements AsyncDisposable {
  readonly #database: PoolLike | Queryable | string
  readonly #schema: string
  readonly #ttl: number
  readonly #namespace: string | undefined
  readonly #healthy: () => boolean
  readonly #lanes: Lane[] = []
  readonly #listener: Listener | undefined
  readonly #desk: Desk
  readonly #sessions: Sessions
  readonly #guards: Guards
  readonly #line: Line
  readonly #watch: Watch
  readonly #sections = new Set<Promise<unknown>>()
  readonly #requestOwner: RequestOwner = {
    onGivenUp: request => {
      if (request.stage === 'queued') this.#desk.returner.cancel(request)
    },
    onDone: request => this.#line.remove(request),
  }
  #unhealthySince: number | undefined
  #closing: Promise<void> | undefined
  #warnedOfPolling = false

  /** @throws BadOptionError */
  constructor(options: FencepostOptions) {
    const given = checkOptions(options).pool ?? options.connectionString
    this.#database = checkDatabase(given)
    this.#schema = checkSchema(options.schema ?? defaultSchema)
    this.#ttl = checkTtl(options.ttl ?? '30s')
    this.#namespace = checkNamespace(options.namespace)
    const poll = milliseconds('poll', options.poll ?? '1s', 20, 60_000)
    const owner = checkLabel('owner', options.owner) ?? `${hostname()}:${process.pid}`
    this.#healthy = checkHealthy(options.healthy)
    this.#line = new Line(
      wholeNumber('maxPending', options.maxPending ?? 10_000),
      wholeNumber('maxPendingPerKey', options.maxPendingPerKey ?? longest),
    )

    const listen = checkListen(options.listen ?? true)
    const channel = `fencepost ${randomUUID()}`
    const calls = new Calls(this.#schema)
    const knowledge = new Knowledge()
    const [beatWire, askWire, returnWire] = this.#wires(listen)
    this.#listener = this.#listen(listen, channel)
    this.#watch = new Watch(
      poll,
      () => this.#listener?.state === 'listening',
      () => asker,
      () => this.#sessions.all(),
    )
    const host: SessionHost = {
      calls,
      knowledge,
      beatWire,
      onRenewed: (session, differs) => this.#renewed(session, differs),
      onOver: session => this.#over(session),
      isHealthy: session => this.#isHealthy(session),
    }
    const info = JSON.stringify({ host: hostname(), pid: process.pid })
    this.#sessions = new Sessions(host, askWire, callTimeout, () => ({
      owner,
      channel: this.#listener && this.#listener.state !== 'polling' ? channel : undefined,
      info,
    }))
    this.#guards = new Guards({
      schema: this.#schema,
      database: this.#database,
      knowledge,
      wire: returnWire,
      callTimeout,
      distrust: session => this.#distrust(session),
      stillOpen: (key, milliseconds) => {
        const warning = `a transaction under ${JSON.stringify(key)} has been open for ${milliseconds} ms: the line waits for it`
        process.emitWarning(warning, { type: 'FencepostWarning', code: 'FENCEPOST_GUARD_OPEN' })
      },
    })
    const desk: Desk = {
      schema: this.#schema,
      calls,
      knowledge,
      askWire,
      returnWire,
      callTimeout,
      poll,
      channel,
      line: this.#line,
      sessions: this.#sessions,
      lockHost: {
        guards: this.#guards,
        release: (session, key, token) => returner.release(session, key, token),
      },
      get asker() {
        return asker
      },
      get returner() {
        return returner
      },
      everReached: false,
      queued: (request, session, expiresIn) => {
        this.#line.enqueue(request, session)
        this.#watch.queued(session, expiresIn)
        if (this.#closing === undefined) return
        request.giveUp(new ClosedError('the client is closed'))
      },
      looked: (session, answers) => this.#watch.looked(session, answers),
      hinted: keys => this.#hinted(keys),
    }
    const asker = new Asker(desk)
    const returner = new Returner(desk)
    this.#desk = desk
  }

  /**
   * Waits in line for a key and holds it. The place in line is kept until the key is granted, or given up by
   * `timeout`, `signal` or `close`.
   *
   * @throws LockTimeoutError, AbortedError, QueueFullError, LostError (the session died while it waited), ClosedError,
   * UnhealthyError, BadKeyError, BadOptionError, UnreachableError, NotMigratedError, NotPermittedError
   */
  acquire(key: string, options: AcquireOptions = {}): Promise<Lock> {
    return this.#ask(key, options, false) as Promise<Lock>
  }

  /** Takes a key if it is free: null when it is not. @throws as `acquire` does, but for the wait */
  tryAcquire(key: string, options: TryAcquireOptions = {}): Promise<Lock | null> {
    return this.#ask(key, options, true)
  }

  /**
   * Runs `section` under a lock, and releases it when that has ended. What the section throws is thrown, whatever
   * becomes of the release.
   *
   * @throws LostError when the lock was lost before the section had ended: what it did may not have been alone.
   */
  async withLock<T>(key: string, section: (lock: Lock) => Promise<T> | T): Promise<T>
  async withLock<T>(key: string, options: AcquireOptions, section: (lock: Lock) => Promise<T> | T): Promise<T>
  async withLock<T>(
    key: string,
    optionsOrSection: AcquireOptions | ((lock: Lock) => Promise<T> | T),
    maybeSection?: (lock: Lock) => Promise<T> | T,
  ): Promise<T> {
    const section = typeof optionsOrSection === 'function' ? optionsOrSection : maybeSection
    const options = typeof optionsOrSection === 'function' ? {} : optionsOrSection
    if (typeof section !== 'function')
      throw new BadOptionError('withLock: want a function to run under the lock')
    const lock = await this.acquire(key, options)
    const running = this.#run(lock, section)
    this.#sections.add(running)
    try {
      return await running
    } finally {
      this.#sections.delete(running)
    }
  }

  /** Creates or updates the schema, on a connection of its own. Any number of processes may do so at once. */
  async migrate(): Promise<MigrateResult> {
    const database = this.#database
    if (typeof database === 'string') return await migrate({ connection: database, schema: this.#schema })
    if (!isPool(database)) throw new BadOptionError('migrate: want a pool or a connection string')
    return await migrate({ connection: database.options, schema: this.#schema })
  }

  /**
   * Ends it: nothing new is taken, who waits is rejected, the signals of what is held are aborted, running sections
   * are awaited while their locks are renewed, everything is given back, and the connections are ended. Locks that were
   * acquired by hand are not waited for. The second call waits for the first.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const timeout = milliseconds('timeout', options.timeout ?? '5s', 0, longest)
    this.#closing ??= whileAlive(this.#close(timeout))
    await this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #ask(key: string, options: AcquireOptions, orNull: boolean): Promise<Lock | null> {
    try {
      return this.#request(key, checkOptions(options), orNull).promise
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #request(key: string, options: AcquireOptions, orNull: boolean): Request {
    const wait = orNull ? 0 : options.timeout
    const timeout = wait === undefined ? undefined : milliseconds('timeout', wait, 0, longest)
    const details = {
      key: fullKey(this.#namespace, key),
      ttl: options.ttl === undefined ? this.#ttl : checkTtl(options.ttl),
      label: checkLabel('label', options.label),
      metadata: checkMetadata(options.metadata),
      signal: checkSignal(options.signal),
      waits: timeout !== 0,
      orNull,
      timeout,
    }
    if (this.#closing !== undefined) throw new ClosedError('the client is closed')
    if (details.signal?.aborted) throw new AbortedError(details.key, details.signal.reason)
    this.#checkHealth()
    this.#line.checkRoom(details.key)
    const request = new Request(details, this.#requestOwner)
    this.#line.add(request)
    this.#desk.asker.ask(request)
    return request
  }

  async #run<T>(lock: Lock, section: (lock: Lock) => Promise<T> | T): Promise<T> {
    let result: T
    try {
      result = await section(lock)
    } catch (error) {
      await lock.release()
      throw error
    }
    const outcome = await lock.release()
    if (outcome !== 'released' && outcome !== 'already') throw new LostError(lock.key, outcome)
    return result
  }

  /** A transaction has found that a grant is not there: what the session holds is looked at, and its handles told. */
  async #distrust(session: Session): Promise<void> {
    await session.beat()
    if (session.isOver) return
    this.#desk.returner.settle(session)
    await within(this.#desk.returner.idle(), 1_000)
  }

  #renewed(session: Session, differs: boolean): void {
    if (differs) this.#desk.returner.settle(session)
    if (this.#closing === undefined) this.#desk.asker.look(session, null)
  }

  /** Who was in line has lost the place, and is told; who was still asking asks again under another session. */
  #over(session: Session): void {
    this.#sessions.forget(session)
    for (const request of this.#line.queuedOf(session)) request.losePlace(session)
    this.#desk.returner.close(session)
  }

  #hinted(keys: readonly string[] | null): void {
    for (const session of this.#line.waitingSessions()) {
      if (keys === null) this.#desk.asker.look(session, null)
      else if (this.#line.queuedOf(session).some(request => keys.includes(request.key))) {
        this.#desk.asker.look(session, keys)
      }
    }
  }

  #isHealthy(session: Session): boolean {
    if (this.#askHealth()) {
      this.#unhealthySince = undefined
      return true
    }
    this.#unhealthySince ??= performance.now()
    return performance.now() - this.#unhealthySince < session.ttl
  }

  #askHealth(): boolean {
    try {
      return this.#healthy() !== false
    } catch {
      return false
    }
  }

  #checkHealth(): void {
    if (this.#unhealthySince === undefined || performance.now() - this.#unhealthySince < this.#ttl) return
    if (!this.#askHealth()) throw new UnhealthyError('healthy() has answered false for a whole ttl')
    this.#unhealthySince = undefined
  }

  async #close(timeout: number): Promise<void> {
    for (const request of this.#line.all()) request.giveUp(new ClosedError('the client is closed'))
    for (const session of this.#sessions.all()) {
      for (const holding of session.held.values()) (holding as Lock).announceShutdown()
    }
    await settled([...this.#sections], timeout)
    // An acquire still in flight is answered first, so that its session is known and nothing of it is left.
    await within(this.#desk.asker.idle(), 1_000)
    for (const session of this.#sessions.all()) session.end('shutdown')
    await within(this.#desk.returner.idle(), 2_000)
    this.#watch.stop()
    this.#listener?.stop()
    await Promise.all([...this.#lanes.map(lane => lane.close()), this.#guards.close()])
  }

  #wires(listen: FencepostOptions['listen']): [Wire, Wire, Wire] {
    const database = this.#database
    if (typeof database !== 'string' && !isPool(database)) {
      const wire = new QueryWire(database, this.#schema)
      if (typeof listen !== 'object') return [wire, wire, wire]
      const beat = new Lane(connector(listen.connectionString, 'fencepost beat', this.#schema))
      this.#lanes.push(beat)
      return [new FallbackWire(beat, wire), wire, wire]
    }
    const lane = (name: string, from: PoolLike | string = database): Lane => {
      const made = new Lane(connector(from, `fencepost ${name}`, this.#schema))
      this.#lanes.push(made)
      return made
    }
    const beat = typeof listen === 'object' ? lane('beat', listen.connectionString) : lane('beat')
    const [ask, giveBack] = [lane('ask'), lane('return')]
    return [new FallbackWire(beat, giveBack), ask, giveBack]
  }

  #listen(listen: FencepostOptions['listen'], channel: string): Listener | undefined {
    const [beat, ...others] = this.#lanes
    const from = others.at(-1) ?? beat
    if (!beat || !from || listen === false) return undefined
    const sameRoad = listen === true
    const listener = new Listener(beat, from, channel, pingInterval, {
      hinted: keys => this.#hinted(keys),
      polling: () => this.#warnOfPolling(),
      direct: async connection => {
        await connection.claim(callTimeout)
        if (sameRoad) for (const lane of others) await lane.connection?.claim(callTimeout)
      },
    })
    beat.onOpen = connection => listener.attach(connection)
    beat.onBroken = () => listener.detach()
    for (const lane of others) {
      lane.onOpen = async (connection: Connection) => {
        connection.onNotification = payload => listener.heardElsewhere(payload)
        if (sameRoad && listener.state === 'listening') await connection.claim(callTimeout)
        if (listener.state === 'deaf' && this.#closing === undefined)
          void beat.open(callTimeout).catch(() => {})
      }
    }
    return listener
  }

  #warnOfPolling(): void {
    if (this.#warnedOfPolling) return
    this.#warnedOfPolling = true
    process.emitWarning(
      'no notification arrives through this connection (a transaction pooler?): waiting by polling. ' +
        'Give listen: { connectionString } a direct connection, or listen: false to say that this is meant.',
      { type: 'FencepostWarning', code: 'FENCEPOST_POLLING' },
    )
  }
}

function checkTtl(ttl: Duration): number {
  return milliseconds('ttl', ttl, 1_000, 86_400_000)
}

function checkSignal(signal: AbortSignal | undefined): AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return signal
  throw new BadOptionError('signal: want an AbortSignal')
}

function checkHealthy(healthy: (() => boolean) | undefined): () => boolean {
  if (healthy === undefined) return () => true
  if (typeof healthy === 'function') return healthy
  throw new BadOptionError('healthy: want a function that answers true or false')
}

function checkListen(
  listen: NonNullable<FencepostOptions['listen']>,
): NonNullable<FencepostOptions['listen']> {
  if (typeof listen === 'boolean') return listen
  if (typeof listen?.connectionString === 'string' && listen.connectionString !== '') return listen
  throw new BadOptionError('listen: want true, false or { connectionString }')
}

async function settled(promises: readonly Promise<unknown>[], timeout: number): Promise<void> {
  await within(Promise.allSettled(promises), timeout)
}

async function within(promise: Promise<unknown>, timeout: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  await Promise.race([
    promise,
    new Promise<void>(resolve => {
      if (timeout < 2 ** 31) timer = setTimeout(resolve, timeout)
    }),
  ])
  clearTimeout(timer)
}
