import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { Acquiring } from './acquiring.ts'
import { RunningWork } from './closing/running-work.ts'
import { ClosingSignals, type SignalHandlers } from './closing/signals.ts'
import { Calls } from './database/calls.ts'
import { type MigrateResult, migrate } from './database/migrate.ts'
import { PresenceCalls } from './database/presence-calls.ts'
import { Roads } from './database/roads.ts'
import { ScheduleCalls } from './database/schedule-calls.ts'
import { SightCalls } from './database/sight-calls.ts'
import { applicationName, isPool } from './database/target.ts'
import { Election } from './election/election.ts'
import type { ElectionHost } from './election/host.ts'
import type { ElectionOptions } from './election/options.ts'
import { BadOptionError, ClosedError } from './errors.ts'
import { Guards } from './guard/host.ts'
import { whileAlive } from './keep-alive.ts'
import { Desk } from './lock/desk.ts'
import { Line } from './lock/line.ts'
import type { Lock } from './lock/lock.ts'
import type { Request } from './lock/request.ts'
import type { Section } from './lock/section.ts'
import { Semaphore, type SemaphoreOptions } from './lock/semaphore.ts'
import { Watch } from './lock/watch.ts'
import { Metrics, type MetricsSnapshot } from './metrics.ts'
import { checkOptions, fullKey } from './options.ts'
import type { ScheduleOptions } from './schedule/definition.ts'
import { ScheduleHost } from './schedule/host.ts'
import type { OnceOptions, OnceWork } from './schedule/once.ts'
import type { ScheduleOverview } from './schedule/overview.ts'
import type { Schedule } from './schedule/schedule.ts'
import { Scheduling } from './schedule/scheduling.ts'
import type { TickWork } from './schedule/tick.ts'
import { Health } from './session/health.ts'
import { Knowledge } from './session/knowledge.ts'
import type { Session, SessionHost } from './session/session.ts'
import { Sessions } from './session/sessions.ts'
import {
  type AcquireOptions,
  type CloseOptions,
  type FencepostOptions,
  mostPermits,
  type PermitOptions,
  readCloseTimeout,
  readPermits,
  readSettings,
  type Settings,
  type TryAcquireOptions,
} from './settings.ts'
import { type RaiseBaseOptions, raiseBase, tokenBase } from './sight/base.ts'
import { type ForcedRelease, type ForceReleaseOptions, forceRelease } from './sight/force-release.ts'
import { type HealthOptions, type HealthReport, health } from './sight/health.ts'
import { SightHost } from './sight/host.ts'
import { type Overview, type QueryOptions, query } from './sight/query.ts'
import {
  once,
  warnOfNoPresence,
  warnOfOpenGuard,
  warnOfPolling,
  warnOfReplication,
  warnOfWatchdog,
} from './warnings.ts'
import { Watchdog } from './watchdog/watchdog.ts'
import { within } from './within.ts'

/** Milliseconds after which a call counts as lost: it waits for nothing but commits. */
const callTimeout = 10_000

/**
 * A client. It opens its own connections when first used (one for heartbeats and notifications, one to ask, one to
 * give back), and one session in the database for each time to live in use. An election with takeover 'fast' has one of
 * either for itself.
 */
export class Fencepost implements AsyncDisposable {
  readonly #settings: Settings
  readonly #roads: Roads
  readonly #desk: Desk
  readonly #sessions: Sessions
  readonly #guards: Guards
  readonly #line: Line
  readonly #acquiring: Acquiring
  readonly #watch: Watch
  readonly #health: Health
  readonly #sight: SightHost
  readonly #scheduling: Scheduling
  readonly #elections: ElectionHost
  readonly #metrics = new Metrics()
  readonly #running = new RunningWork()
  readonly #watchdog: Watchdog | undefined
  readonly #shutdown = new AbortController()
  readonly #signals = new Set<ClosingSignals>()
  #closing: Promise<void> | undefined

  /** @throws BadOptionError */
  constructor(options: FencepostOptions) {
    const settings = readSettings(options)
    const { database, schema, poll } = settings
    const channel = `fencepost ${randomUUID()}`
    const calls = new Calls(schema)
    const knowledge = new Knowledge()
    const roads = new Roads({
      database,
      schema,
      listen: settings.listen,
      channel,
      callTimeout,
      ttl: settings.ttl,
      hinted: keys => this.#hinted(keys),
      polling: once(warnOfPolling),
      unreplicated: once(warnOfReplication),
    })
    this.#watchdog = settings.watchdog ? new Watchdog(warnOfWatchdog) : undefined
    const host: SessionHost = {
      calls,
      knowledge,
      watchdog: this.#watchdog,
      beatWire: roads.beat,
      onRenewed: (session, differs) => this.#renewed(session, differs),
      onForced: (session, holding, grant) => {
        const { key, token } = (holding as Lock).grants.find(one => one.token === grant) ?? {
          key: holding.key,
          token: holding.ownToken,
        }
        void this.#desk.giveBack(session, key, token, grant)
      },
      onOver: session => this.#over(session),
      isHealthy: session => this.#health.allows(session.ttl),
    }
    const info = JSON.stringify({
      host: hostname(),
      pid: process.pid,
      application: applicationName(database),
    })
    this.#settings = settings
    this.#roads = roads
    this.#health = new Health(settings.healthy)
    this.#line = new Line(settings.maxPending, settings.maxPendingPerKey)
    this.#sessions = new Sessions(host, roads.ask, callTimeout, () => ({
      owner: settings.owner,
      channel: roads.channel,
      info,
    }))
    this.#watch = new Watch(
      poll,
      () => roads.isListening,
      session => this.#desk.look(session, null),
      () => this.#sessions.all(),
      session => this.#line.queuedOf(session).length > 0 || this.#desk.passedOf(session).length > 0,
    )
    this.#guards = new Guards({
      schema,
      database,
      knowledge,
      wire: roads.giveBack,
      callTimeout,
      distrust: session => this.#distrust(session),
      stillOpen: warnOfOpenGuard,
    })
    this.#desk = new Desk({
      schema,
      calls,
      knowledge,
      askWire: roads.ask,
      returnWire: roads.giveBack,
      contendedWire: roads.contended,
      callTimeout,
      poll,
      channel,
      line: this.#line,
      sessions: this.#sessions,
      guards: this.#guards,
      running: this.#running,
      metrics: this.#metrics,
      queued: (request, session, expiresIn) => this.#queued(request, session, expiresIn),
      looked: (session, answers) => this.#watch.looked(session, answers),
      hinted: keys => this.#hinted(keys),
    })
    this.#acquiring = new Acquiring({
      settings,
      line: this.#line,
      desk: this.#desk,
      running: this.#running,
      metrics: this.#metrics,
      checkHealth: () => this.#health.check(settings.ttl),
      isClosed: () => this.#closing !== undefined,
    })
    this.#scheduling = new Scheduling(
      new ScheduleHost({
        schema,
        calls: new ScheduleCalls(schema),
        wire: roads.giveBack,
        callTimeout,
        owner: settings.owner,
        fullKey: key => fullKey(settings.namespace, key),
        isClosed: () => this.#closing !== undefined,
        underLease: (key, options, section) => this.#acquiring.run(key, options, section),
        apart: run => this.#acquiring.apart(run),
      }),
    )
    this.#sight = new SightHost({
      schema,
      calls: new SightCalls(schema),
      wire: roads.ask,
      callTimeout,
      owner: settings.owner,
      isClosed: () => this.#closing !== undefined,
      roads,
      sessions: () => this.#sessions.all(),
      witness: () => knowledge.witness(),
      fullKey: key => fullKey(settings.namespace, key),
      hint: (channel, key) => this.#desk.hint(channel, key),
    })
    const presences = new PresenceCalls(schema)
    this.#elections = {
      settings,
      closing: this.#shutdown.signal,
      presence: {
        calls: presences,
        knowledge,
        waking: () => roads.waking,
        connect: (timeout, signal) => roads.direct('presence', timeout, signal),
        withdraw: (session, generation) =>
          Promise.any(
            [roads.beat, roads.giveBack].map(wire =>
              presences.withdraw(wire, callTimeout, session, generation, knowledge.witness()),
            ),
          ),
        isWaiting: session => this.#line.queuedOf(session).length > 0,
        look: (session, key) => this.#desk.look(session, [key]),
        warn: once(warnOfNoPresence),
      },
      acquire: (name, options, apart) => this.#acquiring.askApart(name, options, apart),
      withLock: (name, options, section, apart) =>
        this.#acquiring.run(name, options, section, undefined, apart),
      leader: key => this.#sight.ask(on => this.#sight.calls.leader(on.wire, on.timeout, key)),
      wasReached: () => this.#desk.everReached,
    }
  }

  /**
   * Waits in line for a key and holds it; for several keys, until all of them are held at once. The place in line is kept
   * until the key is granted, or given up by `timeout`, `signal` or `close`.
   *
   * @throws LockTimeoutError, AbortedError, QueueFullError, LostError (the session died while it waited), ClosedError,
   * UnhealthyError, BadKeyError, BadOptionError, UnreachableError, NotMigratedError, NotPermittedError
   */
  acquire(key: string | readonly string[], options: AcquireOptions = {}): Promise<Lock> {
    return this.#acquiring.ask(key, options, false) as Promise<Lock>
  }

  /** Takes a key if it is free: null when it is not. @throws as `acquire` does, but for the wait */
  tryAcquire(key: string | readonly string[], options: TryAcquireOptions = {}): Promise<Lock | null> {
    return this.#acquiring.ask(key, options, true)
  }

  /**
   * Runs `section` under a lock, and releases it when that has ended. What the section throws is thrown, whatever
   * becomes of the release.
   *
   * @throws LostError when the lock was lost before the section had ended: what it did may not have been alone.
   */
  async withLock<T>(key: string | readonly string[], section: Section<T>): Promise<T>
  async withLock<T>(key: string | readonly string[], options: AcquireOptions, section: Section<T>): Promise<T>
  async withLock<T>(
    key: string | readonly string[],
    optionsOrSection: AcquireOptions | Section<T>,
    maybeSection?: Section<T>,
  ): Promise<T> {
    const section = typeof optionsOrSection === 'function' ? optionsOrSection : maybeSection
    const options = typeof optionsOrSection === 'function' ? {} : optionsOrSection
    return await this.#acquiring.run(key, options, section)
  }

  /** Permits under a name: at most so many are out at any time. @throws BadKeyError, BadOptionError */
  semaphore(name: string, options: SemaphoreOptions): Semaphore<PermitOptions> {
    fullKey(this.#settings.namespace, name)
    const permits = readPermits('permits', checkOptions(options).permits, mostPermits)
    return new Semaphore(name, permits, this.#acquiring)
  }

  /** One leader among all who ask under a name. Each object is a candidate of its own. @throws BadKeyError, BadOptionError */
  election(name: string, options: ElectionOptions = {}): Election {
    return new Election(name, options, this.#elections)
  }

  /**
   * Runs `work` at the times of a cron expression, by the database's clock: at each of them in one of the processes that
   * say so, under a lease. Settles when the schedule is known to the database; it keeps this process alive until it is stopped.
   *
   * @throws BadKeyError, BadOptionError, ClosedError, UnreachableError, NotMigratedError, NotPermittedError
   */
  schedule(name: string, cron: string, work: TickWork, options?: ScheduleOptions): Promise<Schedule> {
    return this.#scheduling.schedule(name, cron, work, options)
  }

  /** All schedules of the schema, with their last and next ticks: data. @throws UnreachableError, NotMigratedError */
  schedules(): Promise<readonly ScheduleOverview[]> {
    return this.#scheduling.query()
  }

  /**
   * Does something once per key: the first caller works, under a lease, and the others wait for what it returns, which is
   * kept `within` as JSON. What throws is not remembered, and neither is what dies: the next caller works then.
   *
   * @throws what `work` throws; LostError when the lease was lost before the result was recorded; BadResultError;
   * else as `acquire` does
   */
  once<T>(key: string, work: OnceWork<T>, options: OnceOptions): Promise<T> {
    return this.#scheduling.once(key, work, options)
  }

  /** Who holds and who waits: data, with which nothing can be released. @throws UnreachableError, NotMigratedError */
  query(options?: QueryOptions): Promise<Overview> {
    return query(this.#sight, options)
  }

  /**
   * Takes a key from its holder, who is told at its next heartbeat (`lossReason` is `forced`). For the operator's role.
   *
   * @throws NotPermittedError, BadKeyError, BadOptionError, UnreachableError
   */
  forceRelease(key: string, options: ForceReleaseOptions): Promise<ForcedRelease> {
    return forceRelease(this.#sight, key, options)
  }

  /** From where tokens are counted; null until somebody takes a lock in this life of the server. */
  tokenBase(): Promise<bigint | null> {
    return tokenBase(this.#sight)
  }

  /** Raises it above every token there was: after a restore of data alone. For the operator's role. @throws NotPermittedError */
  raiseBase(options: RaiseBaseOptions): Promise<bigint> {
    return raiseBase(this.#sight, options)
  }

  /** Asks the database, and says how this client is. Fails for a bad option only. @throws BadOptionError */
  health(options?: HealthOptions): Promise<HealthReport> {
    return health(this.#sight, options)
  }

  /** What this client has counted since it was made. */
  metrics(): MetricsSnapshot {
    return this.#metrics.snapshot({
      namespace: this.#settings.namespace,
      received: this.#roads.heard,
      polls: this.#watch.polls,
      held: new Set(this.#sessions.all().flatMap(session => [...session.held.values()])).size,
      pending: this.#line.size,
    })
  }

  /** Creates or updates the schema, on a connection of its own. Any number of processes may do so at once. */
  async migrate(): Promise<MigrateResult> {
    const { database, schema } = this.#settings
    if (typeof database === 'string') return await migrate({ connection: database, schema })
    if (!isPool(database)) throw new BadOptionError('migrate: want a pool or a connection string')
    return await migrate({ connection: database.options, schema })
  }

  /**
   * Ends it: nothing new is taken, who waits is rejected, the signals of what is held are aborted, running sections and
   * `lock.transaction`s are awaited while all that is held is renewed, and everything is given back. A section that
   * outlasts `timeout` loses its lock, a transaction is not committed any more. A lock that was acquired by hand is not
   * waited for. Where the database is away it takes up to 5 s more. The second call waits for the first.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const timeout = readCloseTimeout(options)
    // It counts as closing before anybody is told: whoever is may ask for a lock, or close once more.
    this.#closing ??= whileAlive(Promise.resolve().then(() => this.#close(timeout)))
    await this.#closing
  }

  /**
   * Closes on SIGTERM or SIGINT, and then has the signal end the process, so that its exit status tells of it; a second
   * one ends it at once. Where something else in the process listens for the signal as well, the end is left to that.
   *
   * @returns takes the handlers off; so does `close` without a signal
   */
  closeOnSignals(options: CloseOptions = {}): SignalHandlers {
    const timeout = readCloseTimeout(options)
    const signals = new ClosingSignals(() => this.close({ timeout }))
    this.#signals.add(signals)
    return signals.handlers
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #queued(request: Request, session: Session, expiresIn: number | null): void {
    this.#line.enqueue(request, session)
    this.#watch.queued(session, expiresIn)
    if (this.#closing !== undefined) request.giveUp(new ClosedError('the client is closed'))
  }

  /** A transaction has found that a grant is not there: what the session holds is looked at, and its handles told. */
  async #distrust(session: Session): Promise<void> {
    await session.beat()
    if (session.isOver) return
    this.#desk.settle(session)
    await within(this.#desk.returned(), 1_000)
  }

  #renewed(session: Session, differs: boolean): void {
    if (differs) this.#desk.settle(session)
    if (this.#closing === undefined) this.#desk.look(session, null)
  }

  /** Who was in line has lost the place, and is told; who was still asking asks again under another session. */
  #over(session: Session): void {
    this.#sessions.forget(session)
    for (const request of this.#line.queuedOf(session)) request.losePlace(session)
    this.#desk.close(session)
  }

  /** Anybody may say anything here: what is not waited for is not even remembered. */
  #hinted(keys: readonly string[] | null): void {
    const named = keys && new Set(keys)
    for (const session of this.#sessions.all()) {
      const inLine = [...this.#line.queuedOf(session), ...this.#desk.passedOf(session)]
      if (inLine.length === 0) continue
      const waited = named && inLine.flatMap(({ key, keys }) => keys ?? [key]).filter(key => named.has(key))
      if (waited === null) this.#desk.look(session, null)
      else if (waited.length > 0) this.#desk.look(session, waited)
    }
  }

  async #close(timeout: number): Promise<void> {
    void this.#running.run(this.#scheduling.close())
    for (const request of this.#line.all()) request.giveUp(new ClosedError('the client is closed'))
    for (const session of this.#sessions.all()) {
      for (const holding of session.held.values()) (holding as Lock).announceShutdown()
    }
    this.#shutdown.abort(new ClosedError('the client is closed'))
    await this.#running.ended(timeout)
    const hasStopped = this.#running.isEmpty
    // What is still open keeps its key from whoever is next, and this process from its end.
    this.#guards.giveUp()
    // An acquire still in flight is answered first, so that its session is known and nothing of it is left.
    await within(this.#desk.asked(), 1_000)
    for (const session of this.#sessions.all()) session.end('shutdown', hasStopped)
    await within(this.#desk.returned(), 2_000)
    this.#watch.stop()
    await Promise.all([this.#roads.close(), this.#guards.close(), this.#watchdog?.close()])
    for (const signals of this.#signals) signals.closed()
  }
}
