import { type Call, nameOf, type Reply } from './calls.ts'
import { Clients } from './clients.ts'
import { covers, type Finish, isDead, type LockRow, type State, Violation } from './state.ts'

/** What happened in one schedule, and whether it may. */
export class Record {
  readonly clients = new Clients()
  #state: State
  /** Open transactions that have pinned a grant, by actor. */
  readonly #pins = new Map<number, { key: string; token: number }>()
  readonly #highest = new Map<string, number>()
  readonly #tickets = new Map<string, number>()
  readonly #lastServed = new Map<string, number>()
  /** Tokens of grants that were seen to be marked. */
  readonly #forced = new Set<number>()

  constructor(state: State) {
    this.#state = state
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
    ])
  }

  get clock(): number {
    return this.#state.clock
  }

  /** What was done beforehand has been answered: whoever has a grant or a ticket knows it. */
  begin(): void {
    for (const row of this.#state.locks) {
      const request = row.request === null ? undefined : this.clients.requests.get(row.request)
      if (request) Object.assign(request, { is: 'held', token: row.token })
    }
    for (const row of this.#state.waiters) {
      const request = this.clients.requests.get(row.request)
      if (request) Object.assign(request, { is: 'waiting', ...(row.token !== null && { token: row.token }) })
    }
  }

  /** A call has come back in a transaction that is still open. */
  returned(actor: number, call: Call, reply: Reply): void {
    if (reply.error !== undefined) {
      const refusals = call.isolation === 'read committed' ? ['FP003'] : ['FP003', '40001']
      const expected = call.function === 'assert_held' && refusals.includes(reply.error)
      if (!expected)
        throw new Violation(
          `${call.words} failed: ${reply.error === '40P01' ? 'deadlock (40P01)' : reply.error}`,
        )
      return
    }
    const [place] = call.places
    if (call.function !== 'assert_held' || place?.token === undefined) return
    const row = this.#state.locks.find(({ key }) => key === place.key)
    if (!covers(row, place.token)) {
      throw new Violation(
        `a guard of ${place.key} passed under ${place.token}, and ${row ? `${nameOf(row.session)} holds it under ${row.token}` : 'nobody holds it'}`,
      )
    }
    this.#pins.set(actor, { key: place.key, token: place.token })
  }

  /** Its transaction has ended: no longer pinned, whatever it was. */
  ended(actor: number): void {
    this.#pins.delete(actor)
  }

  /** A commit, or time, has made this state of that one. */
  became(state: State): void {
    const before = this.#state
    this.#state = state
    this.#checkPins(state)
    for (const row of before.locks) this.#checkTaking(row, before, state)
    for (const row of state.locks) this.#checkGrant(row, before, state)
    this.#checkLines(state)
    this.#note(state)
  }

  /** To be asked whenever a client has learned something, or time has passed. */
  checkBeliefs(state: State = this.#state): void {
    for (const request of this.clients.believed(state.clock)) {
      const row = state.locks.find(({ key }) => key === request.key)
      if (isDead(state, request.session))
        throw new Violation(
          `${nameOf(request.session)} trusts that it holds ${request.key}, and its death is stored`,
        )
      if (covers(row, request.token ?? 0) && row?.session === request.session) continue
      const instead = row ? `${nameOf(row.session)} has it under ${row.token}` : 'nobody has it'
      throw new Violation(
        `${nameOf(request.session)} believes that it holds ${request.key} under ${request.token}, and ${instead}`,
      )
    }
  }

  checkAnswers(call: Call, reply: Reply): void {
    if (call.function !== 'acquire' && call.function !== 'release_and_acquire') return
    for (const { request, outcome, token } of reply.answers) {
      const own = request === null ? undefined : this.clients.requests.get(request)
      if (!own || own.is === 'leaving' || own.is === 'gone') continue
      const row = this.#state.locks.find(each => each.request === request)
      const ticket = this.#state.waiters.find(each => each.request === request)
      const right =
        outcome === 'granted'
          ? row?.token === token
          : outcome === 'queued'
            ? ticket !== undefined
            : outcome === 'follows'
              ? ticket?.token === token
              : !row && !ticket
      if (!right)
        throw new Violation(`${call.words} was answered ${outcome}, which is not what was committed`)
    }
  }

  /** @throws Violation when somebody was forgotten, or something was left over. */
  checkFinish({ settled, grants, drained, left }: Finish): void {
    this.became(settled)
    for (const { key, session, released, token } of settled.locks) {
      if (session === null || released) throw new Violation(`${key} is nobody's, and no tick hands it over`)
      if (isDead(settled, session))
        throw new Violation(`${key} is still ${nameOf(session)}'s, who is dead, under ${token}`)
    }
    for (const request of this.clients.requests.values()) {
      const { id, is, key, session } = request
      if (isDead(settled, session) || this.clients.isOver(session)) continue
      const row = settled.locks.find(each => each.request === id)
      const ticket = settled.waiters.find(each => each.request === id)
      const grant = settled.locks.find(each => each.key === key && each.session === session)
      if (is === 'held' && !covers(grant, request.token ?? 0) && !this.#forced.has(request.token ?? 0))
        throw new Violation(`${nameOf(session)} holds ${key} and has lost it`)
      if (is === 'waiting' && !row && !ticket)
        throw new Violation(`${nameOf(session)} waits for ${key} and is forgotten`)
    }
    this.#checkDrain(settled, grants)
    if (drained.locks.length + drained.waiters.length > 0) {
      throw new Violation(
        `everybody has let go, and there is still ${JSON.stringify({ locks: drained.locks, waiters: drained.waiters })}`,
      )
    }
    if (left.locks.length + left.waiters.length + left.sessions.length > 0) {
      throw new Violation(`every session is closed, and there is still ${JSON.stringify(left)}`)
    }
  }

  #checkDrain(settled: State, grants: Finish['grants']): void {
    for (const { key, request } of settled.locks) {
      const line = settled.waiters.filter(ticket => ticket.key === key).map(ticket => ticket.request)
      const served = grants.filter(grant => grant.key === key)
      if (served.map(grant => grant.request).join() !== [request, ...line].join()) {
        throw new Violation(
          `the line of ${key} is ${[request, ...line].map(nameOf)}, and served were ${served.map(grant => nameOf(grant.request))}`,
        )
      }
    }
  }

  #checkPins(state: State): void {
    for (const { key, token } of this.#pins.values()) {
      const row = state.locks.find(each => each.key === key)
      if (!covers(row, token)) {
        throw new Violation(
          `${key} is pinned under ${token} by an open guard, and ${row ? `${nameOf(row.session)} was granted it under ${row.token}` : 'its row is deleted'}`,
        )
      }
    }
  }

  // A living holder that has not let go keeps its grant, and one from whom it was taken by hand does as long as it was
  // renewed by then.
  #checkTaking(row: LockRow, before: State, state: State): void {
    const now = state.locks.find(({ key }) => key === row.key)
    const kept = now?.token === row.token && now.session === row.session && now.released === row.released
    if (kept || row.session === null || row.released) return
    if (this.clients.letsGo(row) || isDead(state, row.session)) return
    if (row.forcedUntil !== null && row.forcedUntil <= state.clock) return
    const holder = before.sessions.find(({ id }) => id === row.session)
    if (this.clients.forced.has(row.key) && holder && holder.expiresAt <= state.clock) return
    throw new Violation(`${row.key} was taken from ${nameOf(row.session)}, who is alive and has not let go`)
  }

  #checkGrant(row: LockRow, before: State, state: State): void {
    const { key, session, request, token, released } = row
    if (session === null) return
    if (!released && this.clients.isGone(request)) {
      throw new Violation(
        `${nameOf(session)} holds ${key} by ${nameOf(request)}, a request that it has given up: a ghost`,
      )
    }
    const old = before.locks.find(each => each.key === key)
    if (old?.token === token) {
      const isCancelled = request === null && this.clients.isGivenUp(old.request)
      // Its turn was told: it was in the run, and is in line no more.
      const isNext = before.waiters.some(
        each =>
          each.request === request && each.key === key && each.token !== null && each.token <= row.tokenTo,
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

  #checkLines(state: State): void {
    for (const { key, ticket, session, request } of state.waiters) {
      const row = state.locks.find(each => each.key === key)
      if (!row?.contended) {
        throw new Violation(
          `${nameOf(session)} waits for ${key}, which has ${row ? 'a row that is not contended' : 'no row'}`,
        )
      }
      if (this.clients.isGone(request))
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
    for (const { key, token, tokenTo, forcedUntil } of state.locks) {
      this.#highest.set(key, Math.max(tokenTo, this.#highest.get(key) ?? 0))
      if (forcedUntil !== null) this.#forced.add(token)
    }
  }
}
