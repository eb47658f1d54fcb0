/**
 * Asks the database: for grants, and what became of those that wait. One call at a time; while it is in flight the
 * next batch gathers.
 */

import type { Answer } from '../database/answers.ts'
import { Backoff } from '../database/backoff.ts'
import { BrokenConnection, explain, isTransient } from '../database/failure.ts'
import type { Wire } from '../database/lane.ts'
import { UnreachableError } from '../errors.ts'
import { ticks } from '../metrics.ts'
import type { Session } from '../session/session.ts'
import type { Use } from '../session/use.ts'
import type { Counter } from './counter.ts'
import type { Desk } from './desk.ts'
import type { Batch } from './intake.ts'
import type { Request } from './request.ts'
import { type Rest, Worker } from './worker.ts'

/** Larger ones save little, and leave the other lane and this process with nothing to do meanwhile: 250 took 45 k/s to 58 k/s. */
const batchSize = 250

export class Asker {
  readonly #desk: Desk
  readonly #counter: Counter
  readonly #wire: Wire
  readonly #worker: Worker
  readonly #backoff = new Backoff(25, 500)
  #queue: Request[] = []
  /** Sent, and not taken in yet. */
  readonly #asking = new Set<readonly Request[]>()
  /** Sessions to look after, and at which keys; null: at all. */
  readonly #looks = new Map<Session, Set<string> | null>()
  #lastWasAsk = false

  /** @param joins whether requests may go along with a release: then a batch is what a whole turn of the event loop brings */
  constructor(desk: Desk, counter: Counter, wire: Wire, joins: boolean) {
    this.#desk = desk
    this.#counter = counter
    this.#wire = wire
    this.#worker = new Worker(isRestLeft => this.#step(isRestLeft), joins)
  }

  ask(request: Request): void {
    this.#queue.push(request)
    this.#worker.wake()
  }

  /** Whether a request for a key is in here: on its way, or about to be. */
  isAsking(key: string): boolean {
    return this.#isSent(key) || this.#queue.some(request => request.key === key)
  }

  #isSent(key: string): boolean {
    return [...this.#asking].some(batch => batch.some(request => request.key === key))
  }

  /** The requests for a key that have not been sent. */
  takeAway(key: string): Request[] {
    const taken = this.#queue.filter(request => request.key === key)
    if (taken.length > 0) this.#queue = this.#queue.filter(request => request.key !== key)
    return taken
  }

  /**
   * Requests for a key, to be asked in the call that gives it back: undefined when there are none, or not now. Whoever
   * takes them says what became of them, by {@link joined}.
   */
  join(session: Session, key: string): Batch | undefined {
    if (session.isUnsettled || session.isOver || this.#isSent(key)) return undefined
    if (this.#desk.options.sessions.current(session.use) !== session) return undefined
    const ours = (request: Request) => request.key === key && request.use === session.use
    const taken = this.#queue.filter(ours)
    if (
      taken.length === 0 ||
      taken.length > batchSize ||
      taken.some(({ waits, givenUp, keys }) => !waits || givenUp || keys !== undefined)
    )
      return undefined
    this.#queue = this.#queue.filter(request => !ours(request))
    const asked = this.#mark(taken, session)
    if (asked.length === 0) return undefined
    this.#desk.options.metrics.batches.acquire.record(asked.length)
    this.#asking.add(asked)
    return { asked, generation: session.generation }
  }

  joined(batch: Batch, session: Session, answers: readonly Answer[]): void {
    this.#desk.options.metrics.answeredAt = ticks()
    this.#asking.delete(batch.asked)
    this.#counter.intake.take(answers, session, batch)
    this.#desk.tookIn()
  }

  /** The call that they were joined to has failed. */
  notJoined({ asked }: Batch, session: Session, error: unknown): void {
    this.#asking.delete(asked)
    if (error instanceof BrokenConnection && error.sent) session.isUnsettled = true
    this.#failed(asked, error)
    this.#desk.tookIn()
  }

  /** What was left to another call is asked for here, if that did not take it. */
  resume(): void {
    if (this.#queue.length > 0) this.#worker.wake()
  }

  /** Looks after what a session waits for, or after some keys of it. */
  look(session: Session, keys: readonly string[] | null): void {
    if (session.isOver) return
    const known = this.#looks.get(session)
    if (keys === null) this.#looks.set(session, null)
    else if (known === undefined) this.#looks.set(session, new Set(keys))
    else if (known !== null) for (const key of keys) known.add(key)
    this.#worker.wake()
  }

  get isIdle(): boolean {
    return !this.#worker.isRunning
  }

  idle(): Promise<void> {
    return this.#worker.idle()
  }

  #step(isRestLeft: boolean): Promise<Rest | undefined> | undefined {
    const [look] = this.#looks
    if (look && (this.#lastWasAsk || this.#queue.length === 0)) {
      // Who is in line by the last answer is looked after as well.
      if (isRestLeft) return undefined
      this.#lastWasAsk = false
      this.#looks.delete(look[0])
      return this.#look(look[0], look[1])
    }
    this.#lastWasAsk = true
    const batch = this.#takeBatch()
    return batch && this.#asked(batch)
  }

  async #asked(batch: Request[]): Promise<Rest | undefined> {
    this.#asking.add(batch)
    const rest = await this.#askFor(batch)
    const takeIn = () => {
      try {
        rest?.()
      } finally {
        this.#asking.delete(batch)
        this.#desk.tookIn()
      }
    }
    if (rest) return takeIn
    takeIn()
    return undefined
  }

  #takeBatch(): Request[] | undefined {
    const { returner } = this.#counter
    const isAnyDue = returner.isAnyDue
    const batch: Request[] = []
    const rest: Request[] = []
    let use: Use | undefined
    for (const request of this.#queue) {
      if (request.givenUp) {
        // It may have been asked for before: an answer was lost.
        returner.cancel(request)
        continue
      }
      if (request.stage === 'done') continue
      // What is about to be given back may be asked for in the same call.
      const goesAlong = isAnyDue && returner.isDue(request.key)
      if (!goesAlong) use ??= request.use
      if (!goesAlong && batch.length < batchSize && request.use === use) batch.push(request)
      else rest.push(request)
    }
    this.#queue = rest
    return batch.length > 0 ? batch : undefined
  }

  async #askFor(batch: Request[]): Promise<Rest | undefined> {
    const { sessions, calls, callTimeout, knowledge, metrics } = this.#desk.options
    const use = batch[0]?.use
    if (use === undefined) return undefined
    let session: Session | undefined
    try {
      session = sessions.current(use) ?? (await sessions.open(use))
      this.#desk.everReached = true
      if (session.isUnsettled) await session.settleGeneration(this.#wire, callTimeout)
      const under = session
      if (under.isOver) {
        for (const request of batch) this.#counter.intake.askElsewhere(request, under)
        return undefined
      }
      const asked = this.#mark(batch, under)
      if (asked.length === 0) return undefined
      metrics.batches.acquire.record(asked.length)
      const { generation } = under
      const answers = await calls.acquire(this.#wire, callTimeout, under, asked, knowledge.witness())
      this.#backoff.reset()
      return () => {
        metrics.answeredAt = ticks()
        this.#counter.intake.take(answers, under, { asked, generation })
      }
    } catch (error) {
      if (session && error instanceof BrokenConnection && error.sent) session.isUnsettled = true
      if (this.#failed(batch, error)) await this.#backoff.wait()
      return undefined
    }
  }

  /** Those that are still wanted are asked for; one given up while its outcome was unknown is cancelled instead. */
  #mark(batch: Request[], session: Session): Request[] {
    const asked: Request[] = []
    for (const request of batch) {
      if (request.givenUp) this.#counter.returner.cancel(request)
      if (request.givenUp || request.stage === 'done') continue
      // It was in line under a session that is over by now.
      if (request.placedUnder && request.placedUnder !== session && request.placedUnder.isOver) {
        request.losePlace(request.placedUnder)
        continue
      }
      request.stage = 'asking'
      request.session = session
      asked.push(request)
    }
    return asked
  }

  /** Transient failures are tried again, those of the connection for as long as the request's ttl: true, there are such. */
  #failed(batch: readonly Request[], error: unknown): boolean {
    const failure = explain(error, this.#desk.options.schema)
    const again: Request[] = []
    // Nobody has been there yet: those who came meanwhile have waited for the same connection.
    const wereWaiting =
      failure instanceof UnreachableError && !this.#desk.everReached ? this.#queue.splice(0) : []
    for (const request of [...batch, ...wereWaiting]) {
      // Its outcome is unknown: once the generation has been raised, nothing of it is left.
      if (request.givenUp) this.#counter.returner.cancel(request)
      if (request.givenUp || request.stage === 'done') continue
      request.failure = failure
      request.failingSince ??= performance.now()
      const mayTry = isTransient(error) || (failure instanceof UnreachableError && this.#desk.everReached)
      const patience = request.waits ? request.details.ttl : Math.min(request.details.ttl, 5_000)
      if (mayTry && performance.now() - request.failingSince < patience) {
        again.push(request)
        continue
      }
      const wasSent = request.stage !== 'new'
      // Its caller first: cancel fails a request with what it was given up for.
      request.fail(failure)
      if (wasSent) this.#counter.returner.cancel(request)
    }
    this.#queue.unshift(...again.filter(request => request.stage !== 'done'))
    this.resume()
    return again.length > 0
  }

  async #look(session: Session, keys: Set<string> | null): Promise<undefined> {
    const { calls, callTimeout, knowledge, line, metrics } = this.#desk.options
    if (session.isOver) return
    const waiting = line
      .queuedOf(session)
      .filter(request => keys === null || (request.keys ?? [request.key]).some(key => keys.has(key)))
    const asked = [...waiting, ...this.#desk.passedOf(session, keys)]
    try {
      metrics.batches.tick.record(asked.length)
      const answers = await calls.tick(this.#wire, callTimeout, session.id, asked, knowledge.witness())
      this.#backoff.reset()
      metrics.answeredAt = ticks()
      this.#counter.intake.take(answers, session)
      this.#desk.options.looked(session, answers)
    } catch {
      // Nothing is lost: the next look is due within the poll interval, and a tick changes nothing that it alone could.
      this.#desk.options.looked(session, [])
      await this.#backoff.wait()
    }
  }
}
