/**
 * A session as this process sees it. The row in the database is authoritative for everybody else; for us it is the
 * trust that the last answered renewal gave.
 *
 *   open --renewed--> open
 *     |  a renewal failed: degraded, still trusted, tried again faster
 *     |  only the wall clock says that trust is over: suspended, not trusted until the next answer
 *     v
 *   over   (refused: `expired`; trust ran out: `unreachable`, or `expired` where no renewal had failed) - for good
 *
 * Trust ends at (just before the last answered renewal was sent) + ttl - margin, by the monotonic clock: the database
 * counts from when it received the same renewal, which is later, so the holder knows first. Where the session shows
 * presence, it may end before (`bound`).
 */
import { randomUUID } from 'node:crypto'
import type { Beat } from '../database/answers.ts'
import type { Calls } from '../database/calls.ts'
import { messageOf } from '../database/failure.ts'
import type { Wire } from '../database/lane.ts'
import { type LossReason, LostError, UnreachableError } from '../errors.ts'
import type { Watch, Watchdog } from '../watchdog/watchdog.ts'
import { type Moment, now, trustAt } from './clock.ts'
import { type Holding, Holdings } from './holdings.ts'
import type { Knowledge } from './knowledge.ts'
import { endOf, type Trust, type TrustBound, worthOf } from './trust.ts'
import type { Use } from './use.ts'

/** Milliseconds before the database may give away what a session holds: there its own trust ends. */
export const marginOf = (ttl: number): number => Math.max(200, ttl / 20)

export interface SessionHost {
  readonly calls: Calls
  readonly beatWire: Wire
  readonly knowledge: Knowledge
  readonly watchdog?: Watchdog | undefined
  /** After each renewal: the tick, and the settling where the two accounts differ. */
  onRenewed(session: Session, differs: boolean): void
  /** An operator took this grant, which its holder knows of now: it is given back. */
  onForced(session: Session, holding: Holding, token: string): void
  onOver(session: Session, reason: LossReason): void
  /** False for a whole ttl: the session is drained. */
  isHealthy(session: Session): boolean
}

export class Session {
  readonly id: string = randomUUID()
  readonly use: Use
  readonly ttl: number
  /** How long an answered renewal is trusted, from its sending, in milliseconds. */
  readonly span: number
  /** By the grant's token, as decimal text; of a run, whose turn it is. */
  readonly held: Map<string, Holding>
  /** Tokens that are being given back: neither held nor lost until that is answered. */
  readonly returning: Set<string> = new Set()
  /** Tokens that an operator took: an answer that grants one, on its way since before, is not believed. */
  readonly #forced: Set<string> = new Set()
  generation = 1
  /** A call was lost in flight: the generation must be raised before another is made under it. */
  isUnsettled = false
  /** When the next look at its waiting requests is due, by the monotonic clock. */
  lookAt: number = Number.POSITIVE_INFINITY
  pollDelay = 0
  /** Once it is over: until when its row may still be alive, by the monotonic clock. */
  closeBy: number = Number.POSITIVE_INFINITY
  /** Once it is over: nothing that ran under it runs any more, so that no key need rest. */
  hasStopped = false
  /** What shortens its trust. */
  bound: TrustBound | undefined
  #since: Moment
  #over: LossReason | undefined
  #isDegraded = false
  #lastFailure: unknown
  #beating: Promise<void> | undefined
  #raising: Promise<void> | undefined
  #beatTimer: NodeJS.Timeout | undefined
  #trustTimer: NodeJS.Timeout | undefined
  readonly #watch: Watch | undefined
  readonly #host: SessionHost

  constructor(host: SessionHost, use: Use) {
    const ttl = typeof use === 'number' ? use : use.ttl
    this.#host = host
    this.use = use
    this.ttl = ttl
    this.span = ttl - marginOf(ttl)
    this.#since = now()
    this.#watch = host.watchdog?.watch((typeof use === 'number' ? marginOf(ttl) : use.margin) / 2)
    this.held = this.#watch
      ? new Holdings(holdsAny => (holdsAny ? this.#arm() : this.#watch?.off()))
      : new Map()
  }

  /** Creates its row. Undefined: the server knows it as over already; take another. */
  async open(
    wire: Wire,
    timeout: number,
    about: { owner: string | undefined; channel: string | undefined; info: string },
  ): Promise<boolean> {
    const { calls, knowledge } = this.#host
    const sent = now()
    const opened = await calls.openSession(
      wire,
      timeout,
      { id: this.id, ttl: this.ttl, ...about },
      knowledge.witness(),
    )
    if (!opened) return false
    this.generation = opened.generation
    this.#note(opened, sent)
    this.#renewed(sent)
    return true
  }

  get isOver(): boolean {
    return this.#over !== undefined
  }

  get lossReason(): LossReason | undefined {
    return this.#over
  }

  /** Why a grant of this session is gone. */
  lossReasonOf(token: string): LossReason {
    return this.isForced(token) ? 'forced' : (this.#over ?? 'expired')
  }

  isForced(token: string): boolean {
    return this.#forced.size > 0 && this.#forced.has(token)
  }

  /** An operator took what is held under this token: its handle is told, and it is given back. */
  force(token: string): void {
    this.#forced.add(token)
    const holding = this.held.get(token)
    if (!holding) return
    // Told first: while those who are told keep the loop busy, the watchdog has its eye on it.
    holding.lose('forced')
    // Of several keys it has been given back by now, with the others.
    if (this.held.delete(token)) this.#host.onForced(this, holding, token)
  }

  /** When the last answered renewal was sent, in milliseconds since 1970 by the wall clock. */
  get renewedAt(): number {
    return this.#since.wall
  }

  /** Looks at the clocks now. Over is final: what is held has been told before this returns. */
  trust(): 'held' | 'degraded' | 'suspended' | 'over' {
    const trust = this.#clocks()
    if (trust === 'suspended') this.#prove()
    if (trust !== 'trusted') return trust
    return this.#isDegraded || this.bound?.isFailing ? 'degraded' : 'held'
  }

  /** Milliseconds of trust left; 0 when there is none. */
  remaining(): number {
    const trust = this.trust()
    if (trust === 'over' || trust === 'suspended') return 0
    return endOf(this.#trusts()) - performance.now()
  }

  /** What shortens its trust does so from another moment, or no more. */
  boundMoved(): void {
    if (this.#over) return
    this.#arm()
    this.#watchTrust()
  }

  /** Renews now. @throws LostError, UnreachableError */
  async renew(key: string): Promise<void> {
    const before = this.#since
    await Promise.all([this.beat(), this.bound?.refresh()])
    if (this.#over) throw new LostError(key, this.#over)
    if (this.#since === before) {
      throw new UnreachableError(`the renewal failed: ${messageOf(this.#lastFailure)}`, {
        cause: this.#lastFailure,
      })
    }
  }

  beat(): Promise<void> {
    this.#beating ??= this.#beat().finally(() => {
      this.#beating = undefined
    })
    return this.#beating
  }

  /** Raises the generation after a call was lost in flight: waits for what still runs, refuses what arrives later. */
  settleGeneration(wire: Wire, timeout: number): Promise<void> {
    if (!this.isUnsettled || this.#over) return Promise.resolve()
    this.#raising ??= this.#raise(wire, timeout).finally(() => {
      this.#raising = undefined
    })
    return this.#raising
  }

  end(reason: LossReason, hasStopped = false): void {
    if (this.#over) return
    this.#over = reason
    this.hasStopped = hasStopped
    this.closeBy = performance.now() + this.ttl
    clearTimeout(this.#beatTimer)
    clearTimeout(this.#trustTimer)
    this.bound?.stop()
    const lost = [...this.held.values()]
    this.held.clear()
    for (const holding of lost) holding.lose(reason)
    this.#watch?.off()
    this.#host.onOver(this, reason)
  }

  #clocks(): 'trusted' | 'suspended' | 'over' {
    if (this.#over) return 'over'
    const trust = this.bound ? worthOf(this.#trusts()) : trustAt(this.#since, this.span)
    // While a renewal is unanswered nobody has said that it expired; with none of them it was we who stood still.
    if (trust === 'over') {
      const isUnanswered = this.#isDegraded || this.#beating !== undefined || this.bound?.isFailing
      this.end(isUnanswered ? 'unreachable' : 'expired')
    }
    return trust
  }

  #trusts(): Trust[] {
    const own = { since: this.#since, span: this.span }
    const bound = this.bound?.trust
    return bound ? [own, bound] : [own]
  }

  /** Has renewed what the wall clock alone says is over. */
  #prove(): void {
    if (trustAt(this.#since, this.span) === 'suspended') void this.beat()
    const bound = this.bound?.trust
    if (bound && trustAt(bound.since, bound.span) === 'suspended') void this.bound?.refresh()
  }

  async #beat(): Promise<void> {
    clearTimeout(this.#beatTimer)
    if (this.#clocks() === 'over') return
    if (!this.#host.isHealthy(this)) return this.end('shutdown')
    const { calls, beatWire, knowledge } = this.#host
    const sent = now()
    let answer: Beat
    try {
      answer = await calls.heartbeat(beatWire, this.#attempt(), this.id, knowledge.witness())
    } catch (error) {
      this.#lastFailure = error
      this.#isDegraded = true
      this.#schedule(this.#retryDelay())
      return
    }
    if (this.#over) return
    if (!answer.renewed) return this.end('expired')
    // Before anything is trusted for longer: the renewal does not hold for these.
    for (const token of answer.forced) this.force(token)
    const reborn = this.#note(answer, sent)
    this.#renewed(sent)
    this.#host.onRenewed(this, reborn || this.#differs(answer))
  }

  #note(answer: { base: string; boot: string; serverTime: number }, sent: Moment): boolean {
    const { calls, beatWire, knowledge } = this.#host
    const { reborn, stepped } = knowledge.learn(answer, sent)
    // Should it fail, the next heartbeat proves the step again.
    if (stepped) {
      calls
        .clockStepped(beatWire, this.ttl / 3, knowledge.witness())
        .then(() => knowledge.graced())
        .catch(() => {})
    }
    return reborn
  }

  #differs(answer: Beat): boolean {
    if (answer.held !== this.held.size) return true
    let tokens = 0n
    for (const token of this.held.keys()) tokens ^= BigInt(token)
    return tokens !== answer.tokens
  }

  #renewed(sent: Moment): void {
    this.#since = sent
    this.#isDegraded = false
    this.#arm()
    this.#schedule(sent.monotonic + this.ttl / 3 - performance.now())
    this.#watchTrust()
  }

  #arm(): void {
    if (this.held.size > 0) this.#watch?.until(endOf(this.#trusts()))
  }

  /** Node's timers fire up to a millisecond early: then it is set again. */
  #watchTrust(): void {
    clearTimeout(this.#trustTimer)
    if (this.trust() === 'over') return
    const left = endOf(this.#trusts()) - performance.now()
    this.#trustTimer = setTimeout(() => this.#watchTrust(), Math.max(Math.ceil(left), 1))
    this.#trustTimer.unref()
  }

  /** Milliseconds for one try: there is to be time for another. */
  #attempt(): number {
    const left = this.#since.monotonic + this.span - performance.now()
    return Math.max(Math.min(Math.max(this.ttl / 3, 250), left / 2), 100)
  }

  #schedule(delay: number): void {
    if (this.#over) return
    clearTimeout(this.#beatTimer)
    this.#beatTimer = setTimeout(() => void this.beat(), Math.max(delay, 0))
    this.#beatTimer.unref()
  }

  /** A twelfth of the ttl, half of that when little trust is left, with jitter: a fleet fails together. */
  #retryDelay(): number {
    const left = this.#since.monotonic + this.span - performance.now()
    const delay = left < this.ttl / 3 ? this.ttl / 24 : this.ttl / 12
    return Math.max(delay, 50) * (0.75 + Math.random() / 4)
  }

  async #raise(wire: Wire, timeout: number): Promise<void> {
    const { calls, knowledge } = this.#host
    const raised = await calls.raiseGeneration(wire, timeout, this.id, this.generation, knowledge.witness())
    if (raised === undefined) return this.end('expired')
    this.generation = raised
    this.isUnsettled = false
  }
}
