import type { RunningWork } from '../closing/running-work.ts'
import type { Answer } from '../database/answers.ts'
import type { ForKeys } from '../database/arguments.ts'
import { Backoff } from '../database/backoff.ts'
import type { Calls } from '../database/calls.ts'
import { BrokenConnection, endsConnection, explain, isTransient } from '../database/failure.ts'
import type { Wire } from '../database/lane.ts'
import { BadOptionError, DeadlockError, FencepostError, type LossReason, LostError } from '../errors.ts'
import type { TransactionHost } from '../guard/transaction.ts'
import { type Metrics, ticks } from '../metrics.ts'
import type { Knowledge } from '../session/knowledge.ts'
import type { Session } from '../session/session.ts'
import type { Use } from '../session/use.ts'
import { Counter } from './counter.ts'
import { deadlockOf } from './deadlock.ts'
import type { Line } from './line.ts'
import { type Granted, Lock, type LockHost } from './lock.ts'
import { Passing } from './passing.ts'
import { Recent } from './recent.ts'
import type { Request } from './request.ts'
import type { Run } from './run.ts'

/** What a desk is given by the client that it belongs to. */
export interface DeskOptions {
  readonly schema: string
  readonly calls: Calls
  readonly knowledge: Knowledge
  readonly askWire: Wire
  readonly returnWire: Wire
  /** For keys that are contended. */
  readonly contendedWire: Wire
  /** Milliseconds after which a call that is not answered counts as lost. */
  readonly callTimeout: number
  /** Milliseconds between two looks of somebody who waits, at most. */
  readonly poll: number
  readonly channel: string
  readonly line: Line
  readonly sessions: { current(use: Use): Session | undefined; open(use: Use): Promise<Session> }
  readonly guards: TransactionHost
  readonly running: RunningWork
  readonly metrics: Metrics
  queued(request: Request, session: Session, expiresIn: number | null): void
  looked(session: Session, answers: readonly Answer[]): void
  hinted(keys: readonly string[] | null): void
}

/**
 * Where a client asks and gives back: at one counter, and at another for keys that are contended, so that the others do
 * not wait for them. A key's requests are asked in the order in which they came, also while it goes from one to the other.
 */
export class Desk implements LockHost {
  readonly #passings = new WeakMap<Session, Map<string, Passing>>()
  readonly #common: Counter
  readonly #busy: Counter
  /** Their calls wait for those of other processes, and for flushes, and the other keys need not. */
  readonly #contended = new Recent()
  /** Keys that are going over, and their requests: what was sent at the common counter is to be answered first. */
  readonly #moving = new Map<string, Request[]>()
  readonly options: DeskOptions
  /** Once a call has been answered, an unreachable database is an outage and not a wrong address. */
  everReached = false

  constructor(options: DeskOptions) {
    this.options = options
    this.#common = new Counter(this, options.askWire, options.returnWire, false)
    this.#busy = new Counter(this, options.contendedWire, options.contendedWire, true)
  }

  ask(request: Request): void {
    const { key } = request
    const moving = this.#moving.get(key)
    if (moving) {
      moving.push(request)
      return
    }
    const isBusy = this.#contended.has(key) || (this.#contended.knows(key) && this.#busy.asker.isAsking(key))
    if (!isBusy) return this.#common.asker.ask(request)
    this.#contended.add(key)
    this.#busy.asker.ask(request)
  }

  /** An answer says that a key is contended. */
  contend(key: string): void {
    if (!this.#contended.add(key)) return
    this.#moving.set(key, [...(this.#moving.get(key) ?? []), ...this.#common.asker.takeAway(key)])
    this.tookIn()
  }

  /** An asker has taken in what was answered. */
  tookIn(): void {
    for (const [key, requests] of this.#moving) {
      if (this.#common.asker.isAsking(key)) continue
      this.#moving.delete(key)
      for (const request of requests) this.#busy.asker.ask(request)
    }
  }

  /** Looks after what a session waits for, or after some keys of it. */
  look(session: Session, keys: readonly string[] | null): void {
    const waits = this.options.line.queuedOf(session).length > 0
    const { asker } = waits ? this.#busy : this.#common
    asker.look(session, keys)
  }

  cancel(request: Request): void {
    this.#counterOf(request.key).returner.cancel(request)
  }

  settle(session: Session): void {
    this.#common.returner.settle(session)
  }

  close(session: Session): void {
    this.#common.returner.close(session)
  }

  hint(channel: string | null, key: string | null): void {
    this.#common.returner.hint(channel, key)
  }

  async asked(): Promise<void> {
    await Promise.all([this.#common.asker.idle(), this.#busy.asker.idle()])
  }

  async returned(): Promise<void> {
    await Promise.all([this.#common.returner.idle(), this.#busy.returner.idle()])
  }

  #counterOf(key: string): Counter {
    return this.#contended.has(key) ? this.#busy : this.#common
  }

  /** Gives a request up that closes a circle. It is looked for again with every answer that says that it waits. */
  async checkDeadlock(request: Request, session: Session): Promise<void> {
    const { calls, callTimeout, returnWire } = this.options
    if (request.isChecked) return
    request.isChecked = true
    try {
      const waits = await calls.waitsFor(returnWire, callTimeout, session.id, request.id)
      const cycle = request.stage === 'queued' ? deadlockOf(waits) : undefined
      if (cycle) request.giveUp(new DeadlockError(request.key, cycle))
    } catch {
      // The next answer is within the poll interval.
    } finally {
      request.isChecked = false
    }
  }

  /** How many permits a semaphore has from now on. */
  async resize(key: string, capacity: number): Promise<void> {
    const { calls, callTimeout, knowledge, returnWire } = this.options
    try {
      const answers = await calls.resize(
        returnWire,
        callTimeout,
        undefined,
        key,
        capacity,
        knowledge.witness(),
      )
      for (const { outcome, channel, key: moved } of answers)
        if (outcome === 'handed') this.hint(channel, moved)
    } catch (error) {
      throw explain(error, this.options.schema)
    }
  }

  get guards(): TransactionHost {
    return this.options.guards
  }

  get running(): RunningWork {
    return this.options.running
  }

  release(lock: Lock, session: Session, since: number): Promise<'released'> {
    const now = ticks()
    this.options.metrics.held(since, now)
    const { key, ownToken, run } = lock
    if (lock.isOfSeveral) return this.#giveAllBack(session, lock.grants)
    if (lock.mode === 'permits') return this.#giveBackPermits(lock, session, now)
    if (run && lock.isPassable && run.isYoung(this.options.poll) && !session.isOver) {
      this.options.metrics.answeredAt = now
      if (this.passOn(run, session)) {
        this.options.metrics.passed += 1
        return Promise.resolve('released')
      }
    }
    return this.giveBack(session, key, ownToken, run?.grant)
  }

  /** Its process may pass permits that it has on to a request of its own. */
  follow(request: Request, session: Session): void {
    const { key } = request
    const passing = this.#passingOf(session, key) ?? new Passing(key)
    this.#passings.get(session)?.set(key, passing) ?? this.#passings.set(session, new Map([[key, passing]]))
    passing.add(request)
  }

  /** Permits for a request that has had others, passed on: for the next. */
  spare({ request, key, token, level }: Answer, session: Session): void {
    if (request === null || key === null || token === null || session.trust() === 'over') return
    const passing = this.#passingOf(session, key)
    const permits = passing?.permitsOf(request) ?? false
    if (!passing || permits === false || session.returning.has(token)) return
    passing.forget([request])
    // Those that it has: they bear its name by now.
    if (session.held.has(token)) return
    // Taken by hand before we have heard of them, they are nobody's to have.
    if (session.isForced(token) || !this.#passPermitsOn(passing, session, token, level ?? token, permits))
      void this.#counterOf(key).returner.release(session, key, token, token, passing)
  }

  /** One that has had permits, passed on, is in line no more. */
  hadGone({ request, key }: Answer, session: Session): void {
    if (request !== null && key !== null) this.#passingOf(session, key)?.forget([request])
  }

  /** Requests that have had permits, passed on, and are in line still. */
  passedOf(session: Session, keys: ReadonlySet<string> | null = null): ForKeys[] {
    const passings = [...(this.#passings.get(session)?.values() ?? [])]
    return passings
      .filter(({ key }) => keys === null || keys.has(key))
      .flatMap(({ key, passed }) => passed.map(id => ({ id, key, keys: undefined })))
  }

  #passingOf(session: Session, key: string): Passing | undefined {
    return this.#passings.get(session)?.get(key)
  }

  #giveBackPermits(lock: Lock, session: Session, now: number): Promise<'released'> {
    const { key, ownToken, ownLevel, permits } = lock
    const passing = this.#passingOf(session, key)
    const mayPass = lock.isPassable && !session.isOver && !session.isForced(ownToken)
    if (passing && mayPass && passing.isYoung(this.options.poll)) {
      this.options.metrics.answeredAt = now
      if (this.#passPermitsOn(passing, session, ownToken, ownLevel, permits))
        return Promise.resolve('released')
    }
    return this.#counterOf(key).returner.release(session, key, ownToken, ownToken, passing)
  }

  #passPermitsOn(
    passing: Passing,
    session: Session,
    token: string,
    level: string,
    permits: number | undefined,
  ): boolean {
    const trust = session.trust()
    const next = trust === 'held' || trust === 'degraded' ? passing.next(permits) : undefined
    if (!next) return false
    this.options.metrics.passed += 1
    const lock = this.grant(next, { token, level, tokens: undefined }, session)
    passing.passOn(next, token, lock)
    if (!passing.isWatched) this.#watchPassing(passing, session)
    return true
  }

  /** As of runs: what lasts is told to the database, for people who look there, and for those who look for circles. */
  #watchPassing(passing: Passing, session: Session): void {
    passing.isWatched = true
    const { returner } = this.#counterOf(passing.key)
    const look = () => {
      passing.isWatched = !session.isOver && !passing.isEmpty
      if (!passing.isWatched) return
      for (const turn of passing.untold((token, lock) => session.held.get(token) === lock))
        returner.turn(session, turn)
      setTimeout(look, this.options.poll).unref()
    }
    setTimeout(look, this.options.poll).unref()
  }

  /** To the database. @param token in a run, of the last whose turn it was; @param grant the grant's */
  giveBack(session: Session, key: string, token: string, grant?: string): Promise<'released'> {
    return this.#counterOf(key).returner.release(session, key, token, grant)
  }

  async #giveAllBack(
    session: Session,
    grants: readonly { key: string; token: string }[],
  ): Promise<'released'> {
    await Promise.all(grants.map(({ key, token }) => this.giveBack(session, key, token)))
    return 'released'
  }

  /** To who follows in the run. False: nobody does any more, or this process does not know whether it holds. */
  passOn(run: Run, session: Session): boolean {
    const trust = session.trust()
    const next = trust === 'held' || trust === 'degraded' ? run.next() : undefined
    if (!next) return false
    this.grant(next.request, { token: next.token, level: undefined, tokens: undefined }, session, run)
    if (!run.isWatched) this.#watch(run, next.request.key, session)
    return true
  }

  /** A turn that lasts is told to the database, for people who look there. */
  #watch(run: Run, key: string, session: Session): void {
    run.isWatched = true
    const look = () => {
      const holding = session.held.get(run.grant)
      run.isWatched = holding !== undefined
      if (!holding) return
      if (holding.ownToken !== run.told) {
        run.told = holding.ownToken
        this.#counterOf(key).returner.turn(session, { key, token: holding.ownToken })
      }
      setTimeout(look, this.options.poll).unref()
    }
    setTimeout(look, this.options.poll).unref()
  }

  grant(request: Request, granted: Granted, session: Session, run?: Run): Lock {
    const lock = new Lock(request.details, granted, session, this, this.options.metrics.answeredAt)
    lock.run = run
    if (request.stage === 'queued') this.contend(request.key)
    if (granted.tokens) for (const token of granted.tokens.values()) session.held.set(token, lock)
    else session.held.set(run?.grant ?? granted.token, lock)
    request.resolve(lock)
    return lock
  }

  /** Of several keys, one that is lost takes the others along. */
  lost(lock: Lock, session: Session, reason: LossReason, since: number): void {
    this.options.metrics.lost(reason, since)
    if (!lock.isOfSeveral || session.isOver) return
    for (const { key, token } of lock.grants)
      if (session.held.get(token) === lock) void this.giveBack(session, key, token)
  }

  /** Who follows in its run is next in line. Repeated until it is answered: without harm. Returns the fence level. */
  async downgrade(lock: Lock, session: Session): Promise<string> {
    const { calls, callTimeout, knowledge, returnWire } = this.options
    const { key, ownToken, run } = lock
    const backoff = new Backoff(25, 1_000)
    for (;;) {
      try {
        const answers = await calls.downgrade(
          returnWire,
          callTimeout,
          session.id,
          { key, token: ownToken },
          knowledge.witness(),
        )
        const own = answers.find(({ token, channel }) => token === ownToken && channel === null)
        if (own?.outcome === 'pinned') {
          throw new BadOptionError(
            `${JSON.stringify(key)}: a guarded transaction is open; downgrade when it has ended`,
          )
        }
        if (own?.outcome !== 'granted') throw new LostError(key, session.lossReasonOf(ownToken))
        if (run && session.held.get(run.grant) === lock) {
          session.held.delete(run.grant)
          session.held.set(ownToken, lock)
          lock.run = undefined
        }
        this.#counterOf(key).intake.take(
          answers.filter(answer => answer !== own),
          session,
        )
        return own.level ?? ownToken
      } catch (error) {
        const mayTry = error instanceof BrokenConnection || endsConnection(error) || isTransient(error)
        if (!mayTry || session.isOver)
          throw error instanceof FencepostError ? error : explain(error, this.options.schema)
        await backoff.wait()
      }
    }
  }
}
