/**
 * Gives back: grants, places in line, whole sessions; and wakes those who are next. Everything here may be repeated
 * without harm, so it is tried until it is answered or the session is over.
 */

import type { Answer } from '../database/answers.ts'
import { Backoff } from '../database/backoff.ts'
import { BrokenConnection, endsConnection, isTransient } from '../database/failure.ts'
import type { Wire } from '../database/lane.ts'
import { ticks } from '../metrics.ts'
import type { Session } from '../session/session.ts'
import { type Awaited, Callers } from './callers.ts'
import type { Counter } from './counter.ts'
import type { Desk } from './desk.ts'
import { Hints } from './hints.ts'
import type { Batch } from './intake.ts'
import type { Passing } from './passing.ts'
import { Recent } from './recent.ts'
import type { Request } from './request.ts'
import { settle } from './settle.ts'
import { type Rest, Worker } from './worker.ts'

/** As the asker's. */
const batchSize = 250
/** Fewer than this are not worth a second call. */
const worthHalving = 16
/** Outcomes that are news for those who ask. */
const brings: ReadonlySet<string> = new Set(['granted', 'follows', 'handed'])

interface Turn {
  readonly key: string
  readonly token: string
  /** Of permits. */
  readonly request?: string | undefined
}

interface Grant extends Awaited {
  readonly key: string
  readonly token: string
  /** The token of the grant that it is part of. */
  readonly grant: string
  /** Of permits: how they were passed on. */
  readonly passing: Passing | undefined
}

interface Debts {
  readonly grants: Grant[]
  readonly requests: Set<Request>
  /** Whose turn it is in runs, and who has permits that were passed on. */
  readonly turns: Map<string, Turn>
  closes: boolean
  settles: boolean
  /** Grants were paid last: what else there is comes next, however many gather meanwhile. */
  paidGrants: boolean
}

export class Returner {
  readonly #desk: Desk
  readonly #counter: Counter
  readonly #wire: Wire
  readonly #notifies: boolean
  readonly #worker = new Worker(isRestLeft => this.#step(isRestLeft))
  readonly #backoff = new Backoff(25, 500)
  readonly #debts = new Map<Session, Debts>()
  readonly #hints: Hints
  /** Keys that are waited for, and about to be given back, or on their way. */
  readonly #due = new Set<string>()
  /** Keys that another process was handed. */
  readonly #shared = new Recent()
  /** Given back, but pinned by a guard: asked again until it has moved on. */
  readonly #pinned = new Set<string>()

  readonly #callers = new Callers()

  /** @param notifies whether who is next is woken in the call that releases */
  constructor(desk: Desk, counter: Counter, wire: Wire, notifies: boolean) {
    this.#desk = desk
    this.#counter = counter
    this.#wire = wire
    this.#notifies = notifies
    this.#hints = new Hints(desk)
  }

  /**
   * Resolves when it is answered, or will be without the caller. Never rejects.
   *
   * @param token in a run, of the last whose turn it was: who follows is next in line
   * @param grant the token of the grant
   */
  release(
    session: Session,
    key: string,
    token: string,
    grant: string = token,
    passing?: Passing,
  ): Promise<'released'> {
    session.held.delete(grant)
    if (session.isOver) return Promise.resolve('released')
    session.returning.add(grant)
    if (this.#notifies) this.#due.add(key)
    return new Promise(resolve => {
      const owed: Grant = { key, token, grant, passing, since: performance.now(), resolve }
      this.#debtsOf(session).grants.push(owed)
      this.#callers.add(owed)
      this.#worker.wake()
    })
  }

  /** Whether a key is being given back: whoever asks for it is asked for in that call, or else after it, in one. */
  isDue(key: string): boolean {
    return this.#due.has(key)
  }

  get isAnyDue(): boolean {
    return this.#due.size > 0
  }

  /** Gives a request up in the database, then fails it with the reason for which it was given up. */
  cancel(request: Request): void {
    const { session } = request
    if (!session || session.isOver) return request.fail(request.givenUp)
    const { requests } = this.#debtsOf(session)
    requests.add(request)
    this.#worker.wake()
  }

  close(session: Session): void {
    this.#debtsOf(session).closes = true
    this.#worker.wake()
  }

  /** Says whose turn it is in a run, or to whom permits were passed on. */
  turn(session: Session, turn: Turn): void {
    this.#debtsOf(session).turns.set(turn.request === undefined ? turn.key : turn.token, turn)
    this.#worker.wake()
  }

  settle(session: Session): void {
    this.#debtsOf(session).settles = true
    this.#worker.wake()
  }

  /** The next in line listens there. Sent after the commit that granted it. */
  hint(channel: string | null, key: string | null): void {
    if (channel === null || key === null) return
    if (channel === this.#desk.options.channel) return this.#desk.options.hinted([key])
    this.#hints.add(channel, key)
    this.#worker.wake()
  }

  idle(): Promise<void> {
    return this.#worker.idle()
  }

  #debtsOf(session: Session): Debts {
    let debts = this.#debts.get(session)
    if (debts) return debts
    debts = {
      grants: [],
      requests: new Set(),
      turns: new Map(),
      closes: false,
      settles: false,
      paidGrants: false,
    }
    this.#debts.set(session, debts)
    return debts
  }

  #step(isRestLeft: boolean): Promise<Rest | undefined> | undefined {
    if (!this.#hints.isEmpty) return this.#hints.send(this.#wire).then(() => undefined)
    const [next] = this.#debts
    if (!next) return undefined
    const [session, debts] = next
    if (isRestLeft && !isGrantsTurn(debts)) return undefined
    // To the end of the round: another session's debts are next.
    this.#debts.delete(session)
    this.#debts.set(session, debts)
    return this.#payOne(session, debts)
  }

  async #payOne(session: Session, debts: Debts): Promise<Rest | undefined> {
    let rest: Rest | undefined
    try {
      rest = await this.#pay(session, debts)
      this.#backoff.reset()
    } catch (error) {
      // An error that the server is sure of would be the same the next time: what it was about ends with the session.
      if (!(error instanceof BrokenConnection) && !endsConnection(error) && !isTransient(error)) {
        this.#forget(session, debts)
      }
      await this.#backoff.wait()
    }
    if (session.isOver && !debts.closes) this.#forget(session, debts)
    const { grants, requests, turns, closes, settles } = debts
    const isPaid = grants.length === 0 && requests.size === 0 && turns.size === 0 && !closes && !settles
    if (isPaid) this.#debts.delete(session)
    return rest
  }

  async #pay(session: Session, debts: Debts): Promise<Rest | undefined> {
    const { calls, callTimeout, knowledge, metrics } = this.#desk.options
    const wire = this.#wire
    const paysGrants = isGrantsTurn(debts)
    debts.paidGrants = paysGrants
    if (debts.closes) {
      // Its end gives everything back at once. Past its ttl the database has done so by itself.
      if (performance.now() < session.closeBy) {
        this.#deliver(
          await calls.closeSession(wire, callTimeout, session.id, knowledge.witness(), !session.hasStopped),
          session,
        )
      }
      this.#forget(session, debts)
      debts.closes = false
    } else if (session.isOver) {
      this.#forget(session, debts)
    } else if (paysGrants) {
      const grants = debts.grants.slice(0, this.#shareOf(debts.grants.length))
      metrics.batches.release.record(grants.length)
      const passed = passedBy(grants)
      const { answers, anew } = await this.#release(session, grants, passed)
      debts.grants.splice(0, grants.length)
      const again = new Set(answers.filter(({ outcome }) => outcome === 'again').map(({ token }) => token))
      debts.grants.push(...grants.filter(grant => again.has(grant.token)))
      for (const { key, passing } of grants)
        if (!answers.some(answer => answer.outcome === 'again' && answer.key === key)) passing?.forget(passed)
      const done = () => {
        for (const grant of grants) if (!again.has(grant.token)) this.#done(session, grant)
        this.#noLongerDue(grants)
      }
      // Who gave it back before who has it next: should they want it again, they have asked first.
      if (this.#notifies) done()
      if (anew) this.#counter.asker.joined(anew, session, answers)
      else this.#deliver(answers, session)
      if (this.#pinned.size > 0) for (const { token } of grants) this.#pinned.delete(token)
      this.#note(answers, session)
      return this.#notifies ? undefined : done
    } else if (debts.requests.size > 0) {
      await session.settleGeneration(wire, callTimeout)
      const requests = [...debts.requests].slice(0, batchSize)
      metrics.batches.cancel.record(requests.length)
      const answers = await calls.cancel(wire, callTimeout, session.id, requests, knowledge.witness())
      for (const request of requests) {
        debts.requests.delete(request)
        request.fail(request.givenUp)
      }
      this.#deliver(answers, session)
      this.#note(answers, session)
    } else if (debts.turns.size > 0) {
      await this.#tell(session, debts.turns)
    } else if (debts.settles) {
      debts.settles = false
      await settle(this.#desk, this.#wire, this, session)
    }
    return undefined
  }

  async #release(
    session: Session,
    grants: readonly Grant[],
    passed: readonly string[],
  ): Promise<{ answers: Answer[]; anew?: Batch }> {
    const { calls, callTimeout, knowledge, channel, metrics } = this.#desk.options
    const args = [this.#wire, callTimeout, session.id, grants, knowledge.witness()] as const
    if (!this.#notifies) return { answers: await calls.release(...args, passed) }
    const { asker } = this.#counter
    const [{ key }] = grants as [Grant]
    // Where others wait, who is next need not wait for us to ask, and all of ours are in line side by side.
    const isOne = grants.length === 1 && passed.length === 0
    const anew = isOne && !this.#shared.has(key) ? asker.join(session, key) : undefined
    try {
      const answers = await calls.releaseAndNotify(...args, passed, channel, anew)
      for (const answer of answers) {
        if (answer.outcome !== 'handed' || answer.channel === channel) continue
        // Whose channel is named, the server has not told: that is ours to do.
        if (answer.channel === null) metrics.sent += 1
        if (answer.key !== null) this.#shared.add(answer.key)
      }
      return anew ? { answers, anew } : { answers }
    } catch (error) {
      if (anew) asker.notJoined(anew, session, error)
      this.#noLongerDue(grants)
      throw error
    }
  }

  #noLongerDue(grants: readonly Grant[]): void {
    for (const { key } of grants) this.#due.delete(key)
    this.#counter.asker.resume()
  }

  /** For people only: what fails for good is left, and nothing else is held up by it. */
  async #tell(session: Session, debts: Map<string, Turn>): Promise<void> {
    const { calls, callTimeout, knowledge } = this.#desk.options
    const turns = [...debts]
    debts.clear()
    try {
      await calls.turn(this.#wire, callTimeout, session.id, [...new Map(turns).values()], knowledge.witness())
    } catch (error) {
      if (!endsConnection(error) && !(error instanceof BrokenConnection) && !isTransient(error)) return
      for (const [name, turn] of turns) if (!debts.has(name)) debts.set(name, turn)
      throw error
    }
  }

  /**
   * While nobody asks, only half: callers that go round and round would else all ask and all give back in step, with one
   * of the two lanes idle (64 callers: 30 k/s instead of 36 k/s). It costs no flush, for these commits are asynchronous.
   */
  #shareOf(count: number): number {
    const halved = count > worthHalving && this.#counter.asker.isIdle
    return Math.min(halved ? Math.ceil(count / 2) : count, batchSize)
  }

  #done(session: Session, grant: Grant): void {
    session.returning.delete(grant.grant)
    this.#callers.answer(grant)
  }

  #forget(session: Session, debts: Debts): void {
    this.#noLongerDue(debts.grants)
    for (const grant of debts.grants.splice(0)) this.#done(session, grant)
    for (const request of debts.requests) request.fail(request.givenUp)
    debts.requests.clear()
    debts.turns.clear()
    debts.settles = false
  }

  #deliver(answers: readonly Answer[], session: Session): void {
    if (answers.length > 0) this.#desk.options.metrics.answeredAt = ticks()
    this.#counter.intake.take(
      answers.filter(({ outcome }) => brings.has(outcome)),
      session,
    )
  }

  /** What is pinned moves on when the guard ends; whoever released it asks again until then. */
  #note(answers: readonly Answer[], session: Session): void {
    for (const { outcome, key, token } of answers) {
      if (token === null || key === null) continue
      if (outcome !== 'pinned') this.#pinned.delete(token)
      else {
        this.#pinned.add(token)
        const again = setTimeout(() => {
          if (this.#pinned.delete(token) && !session.isOver) void this.release(session, key, token)
        }, this.#desk.options.poll)
        again.unref()
      }
    }
  }
}

/** Requests in line to which some of what goes back was passed on. */
function passedBy(grants: readonly Grant[]): string[] {
  const all = new Set(grants.map(({ passing }) => passing))
  return [...all].flatMap(passing => passing?.passed ?? [])
}

function isGrantsTurn({ grants, requests, turns, settles, paidGrants }: Debts): boolean {
  return grants.length > 0 && !(paidGrants && (requests.size > 0 || turns.size > 0 || settles))
}
