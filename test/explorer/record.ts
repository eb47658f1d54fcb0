import { checkAnswers } from './answers.ts'
import { type Call, nameOf, type Reply } from './calls.ts'
import { Clients } from './clients.ts'
import { checkFinish } from './finish.ts'
import { mayBeRefused } from './role.ts'
import { covers, type Finish, type Grant, grantsOf, isDead, type State, Violation } from './state.ts'
import { Ticks } from './ticks.ts'

/** What happened in one schedule, and whether it may. */
export class Record {
  readonly clients = new Clients()
  readonly #ticks = new Ticks()
  #state: State
  /** Before the last commit. */
  #before: State
  /** Open transactions that have pinned a grant, by actor. */
  readonly #pins = new Map<number, { key: string; token: number }>()
  readonly #highest = new Map<string, number>()
  readonly #tickets = new Map<string, number>()
  readonly #lastServed = new Map<string, number>()
  /** The last exclusive token of each key. */
  readonly #exclusive = new Map<string, number>()
  /** Tokens of grants that were seen to be marked. */
  readonly #forced = new Set<number>()

  constructor(state: State) {
    this.#state = state
    this.#before = state
    this.#note(state)
  }

  /** What is committed now. */
  get state(): State {
    return this.#state
  }

  /** All that decides what becomes of this when time passes. */
  get summary(): string {
    return JSON.stringify([
      this.#state,
      this.clients.summary,
      [...this.#highest],
      [...this.#tickets],
      [...this.#lastServed],
      [...this.#forced],
      [...this.#exclusive],
    ])
  }

  get clock(): number {
    return this.#state.clock
  }

  /** What was done beforehand has been answered: whoever has a grant or a ticket knows it. */
  begin(): void {
    for (const row of grantsOf(this.#state)) {
      const request = row.request === null ? undefined : this.clients.get(row.request, row.key)
      if (request) Object.assign(request, { is: 'held', token: row.token })
    }
    for (const row of this.#state.waiters) {
      const request = this.clients.get(row.request, row.key)
      if (request) Object.assign(request, { is: 'waiting', ...(row.token !== null && { token: row.token }) })
    }
  }

  /** A call has come back in a transaction that is still open. */
  returned(actor: number, call: Call, reply: Reply): void {
    if (reply.error !== undefined) {
      const refusals = call.isolation === 'read committed' ? ['FP003'] : ['FP003', '40001']
      const expected = mayBeRefused(call) && refusals.includes(reply.error)
      if (!expected)
        throw new Violation(
          `${call.words} failed: ${reply.error === '40P01' ? 'deadlock (40P01)' : reply.error}`,
        )
      return
    }
    const [place] = call.places
    if (call.function !== 'assert_held' || place?.token === undefined) return
    const { key, token } = place
    const [held] = grantsOf(this.#state).filter(grant => grant.key === key)
    if (!this.#find(this.#state, key, token)) {
      throw new Violation(
        `a guard of ${key} passed under ${token}, and ${held ? `${nameOf(held.session)} holds it under ${held.token}` : 'nobody holds it'}`,
      )
    }
    this.#pins.set(actor, { key, token })
  }

  /** Its transaction has ended: no longer pinned, whatever it was. */
  ended(actor: number): void {
    this.#pins.delete(actor)
  }

  /** A commit, or time, has made this state of that one. */
  became(state: State): void {
    const before = this.#state
    this.#before = before
    this.#state = state
    this.#ticks.became(before, state)
    this.#checkPins(state)
    for (const grant of grantsOf(before)) this.#checkTaking(grant, before, state)
    for (const grant of grantsOf(state)) this.#checkGrant(grant, before, state)
    this.#checkBeside(before, state)
    this.#checkWhole(state)
    this.#checkLines(state)
    this.#note(state)
  }

  /** To be asked whenever a client has learned something, or time has passed. */
  checkBeliefs(state: State = this.#state): void {
    for (const request of this.clients.believed(state.clock)) {
      const { key, token = 0 } = request
      const row = this.#find(state, key, token)
      if (isDead(state, request.session))
        throw new Violation(
          `${nameOf(request.session)} trusts that it holds ${request.key}, and its death is stored`,
        )
      if (row?.session === request.session) continue
      const [other] = grantsOf(state).filter(grant => grant.key === key)
      const instead = other ? `${nameOf(other.session)} has it under ${other.token}` : 'nobody has it'
      throw new Violation(
        `${nameOf(request.session)} believes that it holds ${request.key} under ${request.token}, and ${instead}`,
      )
    }
  }

  /** Whether what was answered is what was committed. */
  checkAnswers(call: Call, reply: Reply): void {
    this.#ticks.answered(call, reply, this.#state)
    checkAnswers(call, reply, { before: this.#before, state: this.#state, clients: this.clients })
  }

  /** @throws Violation when somebody was forgotten, or something was left over. */
  checkFinish(finish: Finish): void {
    this.became(finish.settled)
    checkFinish(finish, this.clients, this.#forced)
  }

  #checkPins(state: State): void {
    for (const { key, token } of this.#pins.values()) {
      const [row] = grantsOf(state).filter(each => each.key === key)
      if (!this.#find(state, key, token)) {
        throw new Violation(
          `${key} is pinned under ${token} by an open guard, and ${row ? `${nameOf(row.session)} was granted it under ${row.token}` : 'nobody has it'}`,
        )
      }
    }
  }

  // A living holder that has not let go keeps its grant, and one from whom it was taken by hand does as long as it was
  // renewed by then.
  #checkTaking(row: Grant, before: State, state: State): void {
    const now = grantsOf(state).find(({ key, token }) => key === row.key && token === row.token)
    const isNow = this.#find(state, row.key, row.token)
    const kept = (now ?? isNow)?.session === row.session && (now ?? isNow)?.released === row.released
    if (kept || row.released) return
    if (this.clients.letsGo(row) || isDead(state, row.session)) return
    if (row.forcedUntil !== null && row.forcedUntil <= state.clock) return
    const holder = before.sessions.find(({ id }) => id === row.session)
    if (this.clients.forced.has(row.key) && holder && holder.expiresAt <= state.clock) return
    throw new Violation(`${row.key} was taken from ${nameOf(row.session)}, who is alive and has not let go`)
  }

  #checkGrant(row: Grant, before: State, state: State): void {
    const { key, session, request, token, released } = row
    if (!released && this.clients.isGone(request, key)) {
      throw new Violation(
        `${nameOf(session)} holds ${key} by ${nameOf(request)}, a request that it has given up: a ghost`,
      )
    }
    const old = this.#find(before, key, token)
    if (old && (old.token === token || row.mode !== 'exclusive')) {
      const isCancelled = request === null && this.clients.isGivenUp(old.request, key)
      // Its turn was told: it was in the run, or might be passed what another had, and is in line no more.
      const isNext = before.waiters.some(
        each =>
          each.request === request &&
          each.key === key &&
          ((each.token !== null && each.token <= row.tokenTo) || each.follows),
      )
      if ((old.request !== request && !isCancelled && !isNext) || old.session !== session)
        throw new Violation(`two grants of ${key} under the same token ${token}`)
      return
    }
    if (isDead(state, session))
      throw new Violation(`${key} was granted to ${nameOf(session)}, whose death is stored`)
    const highest = this.#highest.get(key) ?? 0
    if (token <= highest)
      throw new Violation(`the tokens of ${key} do not rise: ${token} was granted after ${highest}`)
    const wanted = before.waiters.find(each => each.request === request && each.key === key)
    if (wanted && (wanted.mode ?? 'exclusive') !== row.mode)
      throw new Violation(`${key} was granted ${row.mode} to ${nameOf(session)}, who wants it otherwise`)
    const place = this.#tickets.get(`${request} ${key}`) ?? Number.POSITIVE_INFINITY
    const isOfRun = (number: number | null) => number !== null && number > token && number <= row.tokenTo
    const passed = state.waiters.find(
      each => each.key === key && each.ticket < place && !isOfRun(each.token) && !isDead(state, each.session),
    )
    if (passed)
      throw new Violation(
        `${key} went to ${nameOf(session)}, past ${nameOf(passed.session)}, who was in line before it`,
      )
    if (place !== Number.POSITIVE_INFINITY) this.#lastServed.set(key, place)
  }

  // Never a writer beside a reader, never more permits than there are, and one level for all who hold together.
  #checkBeside(before: State, state: State): void {
    for (const { key, capacity } of state.locks) {
      const held = grantsOf(state).filter(grant => grant.key === key)
      const kinds = new Set(held.map(({ mode }) => mode))
      if (kinds.size > 1 || (kinds.has('exclusive') && held.length > 1))
        throw new Violation(`${key} is held ${held.map(({ mode }) => mode).join(' and ')} at once`)
      const isNew = held.some(({ token }) => !this.#find(before, key, token))
      const out = held.reduce((sum, { permits }) => sum + (permits ?? 0), 0)
      if (isNew && capacity !== null && out > capacity)
        throw new Violation(`${out} permits of ${key} are out, and there are ${capacity}`)
      const levels = new Set(held.flatMap(({ level }) => level ?? []))
      if (levels.size > 1)
        throw new Violation(`${key} is held under the levels ${[...levels].join(' and ')} at once`)
      for (const level of levels)
        if (level < (this.#exclusive.get(key) ?? 0))
          throw new Violation(`the level ${level} of ${key} is too low`)
    }
  }

  // All of several keys, or none: in line, and held from the moment on at which they are granted.
  #checkWhole(state: State): void {
    const wide = new Map(
      state.waiters.filter(ticket => ticket.wide).map(({ request, session }) => [request, session]),
    )
    for (const [request, session] of wide) {
      if (isDead(state, session)) continue
      const own = [...this.clients.requests.values()].filter(({ id }) => id === request)
      const waits = state.waiters.filter(each => each.request === request).length
      const holds = grantsOf(state).filter(each => each.request === request).length
      if (own.some(({ is }) => is === 'leaving')) continue
      if (holds > 0 || waits < own.length)
        throw new Violation(
          `${nameOf(request)} is for ${own.length} keys, waits for ${waits} and holds ${holds}`,
        )
    }
  }

  #find(state: State, key: string, token: number): Grant | undefined {
    return grantsOf(state).find(grant => grant.key === key && covers(grant, token))
  }

  #checkLines(state: State): void {
    for (const { key, ticket, session, request } of state.waiters) {
      const row = state.locks.find(each => each.key === key)
      if (!row?.contended) {
        throw new Violation(
          `${nameOf(session)} waits for ${key}, which has ${row ? 'a row that is not contended' : 'no row'}`,
        )
      }
      if (this.clients.isGone(request, key))
        throw new Violation(`${nameOf(session)} has a ticket for ${nameOf(request)}, which it has given up`)
      if (ticket <= (this.#lastServed.get(key) ?? 0)) {
        throw new Violation(
          `${nameOf(session)} has ticket ${ticket} of ${key}, and a later one was served before it`,
        )
      }
    }
  }

  #note(state: State): void {
    for (const { key, ticket, request } of state.waiters) this.#tickets.set(`${request} ${key}`, ticket)
    for (const { key, token, tokenTo, forcedUntil, mode } of grantsOf(state)) {
      this.#highest.set(key, Math.max(tokenTo, this.#highest.get(key) ?? 0))
      if (mode === 'exclusive') this.#exclusive.set(key, token)
      if (forcedUntil !== null) this.#forced.add(token)
    }
  }
}
