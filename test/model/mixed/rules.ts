import { type Answer, type Ask, channelOf } from './database.ts'
import {
  forgotten,
  type Grant,
  grantsOf,
  isInRun,
  isLive,
  lineOf,
  mayFollow,
  type State,
  type Ticket,
} from './state.ts'

/** What was asked of the database in one call, and what it answered. */
export interface Call {
  readonly name: string
  readonly session?: string
  readonly asks?: readonly Ask[]
  readonly released?: readonly { readonly key: string; readonly token: string }[]
  readonly cancelled?: readonly { readonly key: string; readonly request: string }[]
  readonly forced?: { readonly key: string; readonly token: string | null; readonly now: boolean }
  readonly resized?: string
  /** Keys after which it has looked: nobody who is first there and fits may be left. */
  readonly looks: readonly string[]
  /** Also after who waits for several. */
  readonly several?: boolean
  readonly answers: readonly Answer[]
}

/**
 * The rules of the mixed queue, over two states and the call between them. Nothing here knows how the functions go about
 * it: who may have gone, who may have come, in which order, under which numbers, and what has to be said about it.
 */
export class Rules {
  /** Tokens that open guards have pinned. */
  readonly pins = new Map<number, { readonly key: string; readonly token: string }>()
  /** Whose session rows others have. */
  readonly seized = new Set<string>()
  readonly #highest = new Map<string, bigint>()
  /** The last exclusive token of a key, ever. */
  readonly #exclusive = new Map<string, bigint>()
  /** The level of the head as which a key is in use. */
  readonly #levels = new Map<string, bigint>()

  check(before: State, after: State, call: Call): void {
    const keys = new Set([...before.rows.keys(), ...after.rows.keys()])
    for (const key of keys) {
      this.#checkBeside(after, key)
      const granted = this.#granted(before, after, key)
      for (const grant of grantsOf(before, key)) this.#checkGone(grant, after, call)
      for (const ticket of before.tickets.filter(each => each.key === key))
        this.#checkLeft(ticket, before, after, call, granted)
      this.#checkOrder(key, before, after, call, granted)
      this.#checkNumbers(key, before, after, granted)
      if (granted.length > 0) this.#checkTold(key, before, after, call, granted)
    }
    this.#checkWhole(before, after)
    this.#checkLines(after)
    // Found dead at one key, a session may have been the first in line for another that was looked at before.
    const wasFoundDead = [...after.sessions].some(([id, { died }]) => died && isLive(before, id))
    if (wasFoundDead && call.name !== 'close') return
    const left = forgotten(after, call.looks, call.several ?? false)
    for (const { session, key, mode } of left)
      if (!this.seized.has(session))
        throw new Error(`${mode} for ${key} fits, is first in line, and forgotten by ${call.name}`)
  }

  #granted(before: State, after: State, key: string): Grant[] {
    const old = new Set(grantsOf(before, key).map(({ token }) => token))
    const granted = grantsOf(after, key).filter(({ token }) => !old.has(token))
    return granted.sort((one, other) => Number(BigInt(one.token) - BigInt(other.token)))
  }

  #checkBeside(state: State, key: string): void {
    const held = grantsOf(state, key)
    const kinds = new Set(held.map(({ mode }) => mode))
    if (kinds.size > 1 || (kinds.has('exclusive') && held.length > 1))
      throw new Error(`${key} is held ${held.map(({ mode }) => mode).join(' and ')} at once`)
  }

  #checkGone(grant: Grant, after: State, call: Call): void {
    const { key, token, session, request } = grant
    const now = grantsOf(after, key).find(each => each.token === token)
    for (const pin of this.pins.values())
      if (pin.key === key && pin.token === token && !now) throw new Error(`${key} went from under a pin`)
    if (now && (now.session !== session || (now.request !== request && now.request !== null)))
      if (call.name !== 'downgrade') throw new Error(`two grants of ${key} under ${token}`)
    if (now && (now.released === grant.released || grant.released)) return
    const isOwn = call.session === session
    const mayGo =
      grant.released ||
      grant.forced === 'due' ||
      !isLive(after, session) ||
      (isOwn && call.released?.some(each => each.key === key && BigInt(each.token) >= BigInt(token))) ||
      (isOwn &&
        call.cancelled?.some(each => each.key === key && (each.request === request || request === null))) ||
      (isOwn && call.name === 'downgrade') ||
      // Repeated, when another key of it is gone.
      (isOwn && call.asks?.some(ask => ask.wide && ask.request === request)) ||
      (call.forced?.key === key &&
        (call.forced.token ?? token) === token &&
        (call.forced.now || after.sessions.get(session)?.expired))
    if (!mayGo) throw new Error(`${key} was taken from a living holder by ${call.name}`)
  }

  #checkLeft(ticket: Ticket, before: State, after: State, call: Call, granted: readonly Grant[]): void {
    const { key, request, session, permits } = ticket
    const is = (each: { key: string; request: string | null }) => each.key === key && each.request === request
    if (after.tickets.some(is) || granted.some(is)) return
    const isOwn = call.session === session
    const mayGo =
      !isLive(after, session) ||
      (isOwn && call.cancelled?.some(is)) ||
      (call.resized === key && (permits ?? 0) > (after.rows.get(key)?.capacity ?? 0)) ||
      (isInRun(before, ticket) && isOwn && ['release', 'downgrade', 'anew', 'cancel'].includes(call.name))
    if (!mayGo) throw new Error(`a ticket for ${key} is gone after ${call.name}`)
  }

  // Who was in line or has come is served from the first on, and nobody is passed who stays there.
  #checkOrder(key: string, before: State, after: State, call: Call, granted: readonly Grant[]): void {
    const comers = (call.asks ?? []).filter(ask => ask.key === key).map(({ request }) => request)
    const line = [...lineOf(before, key).map(({ request }) => request), ...comers]
    const were = before.tickets.filter(each => each.key === key).map(({ request }) => request)
    const order = [...new Set([...were, ...line])]
    let last = -1
    for (const { request, mode } of granted) {
      const is = (each: { key: string; request: string }) => each.key === key && each.request === request
      const wanted = before.tickets.find(is)?.mode ?? call.asks?.find(is)?.mode ?? 'exclusive'
      if (mode !== wanted) throw new Error(`${key} was granted ${mode} to who wants it ${wanted}`)
      const place = order.indexOf(request ?? '')
      if (place < 0) throw new Error(`${key} was granted to who had not asked`)
      if (place < last) throw new Error(`${key} was granted out of order`)
      const passed = order
        .slice(last + 1, place)
        .filter(each => lineOf(after, key).some(one => one.request === each))
      if (passed.length > 0) throw new Error(`${key} was granted past who waits for it`)
      last = place
    }
    const now = after.tickets.filter(each => each.key === key).map(({ request }) => request)
    const kept = order.filter(request => now.includes(request))
    if (kept.join() !== now.join()) throw new Error(`the line of ${key} is not kept in order`)
  }

  #checkNumbers(key: string, before: State, after: State, granted: readonly Grant[]): void {
    const row = after.rows.get(key)
    for (const { token, mode, level } of granted) {
      const number = BigInt(token)
      if (number <= (this.#highest.get(key) ?? 0n)) throw new Error(`the tokens of ${key} do not rise`)
      this.#highest.set(key, number)
      if (mode === 'exclusive') continue
      this.#checkLevel(key, number, BigInt(level ?? 0))
    }
    if (row && row.mode === null && row.session !== null) {
      this.#highest.set(key, BigInt(row.last))
      this.#exclusive.set(key, BigInt(row.last))
    }
    for (const grant of grantsOf(after, key)) {
      if (grant.mode === 'exclusive') continue
      const was = grantsOf(before, key).find(({ token }) => token === grant.token)
      if (was?.mode === 'exclusive') {
        if (grant.level !== grant.token)
          throw new Error(`the level after a downgrade of ${key} is not its token`)
        this.#exclusive.set(key, BigInt(grant.token))
        this.#levels.set(key, BigInt(grant.token))
      } else if (was && was.level !== grant.level) throw new Error(`a level of ${key} changed`)
    }
    if (!row || row.mode === null) this.#levels.delete(key)
    const used = grantsOf(after, key).reduce((sum, { permits }) => sum + (permits ?? 0), 0)
    if (granted.length > 0 && row?.mode === 'permits' && used > (row.capacity ?? 0))
      throw new Error(`${used} permits of ${key} are out, and there are ${row.capacity}`)
  }

  #checkLevel(key: string, token: bigint, level: bigint): void {
    const [exclusive, head] = [this.#exclusive.get(key) ?? 0n, this.#levels.get(key)]
    if (level < exclusive) throw new Error(`a level of ${key} is below an exclusive token`)
    if (level >= token) throw new Error(`a level of ${key} is no earlier number`)
    if (head !== undefined && head !== level) throw new Error(`two levels of ${key} beside each other`)
    this.#levels.set(key, level)
  }

  // Who was granted it must hear of it, from the answer or on its channel.
  #checkTold(key: string, before: State, after: State, call: Call, granted: readonly Grant[]): void {
    for (const { session, request, token, level } of granted) {
      const own = call.answers.some(
        each =>
          each.outcome === 'granted' &&
          each.request === request &&
          each.token === token &&
          each.level === level,
      )
      const other = call.answers.some(
        each => each.outcome === 'handed' && each.key === key && each.channel === channelOf(session),
      )
      const looksLater = ['tick', 'close'].includes(call.name)
      if (session === call.session ? !own && !looksLater : !other)
        throw new Error(`nobody is told of a grant of ${key} by ${call.name}`)
    }
    const handed = call.answers.filter(each => each.outcome === 'handed' && each.key === key)
    const isFor = ({ channel }: Answer, session: string) => channel === channelOf(session)
    for (const each of handed) {
      const isTrue =
        // It may have been found dead in the same call.
        [...after.sessions].some(([id, { died }]) => died && isFor(each, id)) ||
        granted.some(({ session }) => isFor(each, session)) ||
        lineOf(after, key).some(ticket => ticket.wide && isFor(each, ticket.session)) ||
        // It hears that it may pass permits on.
        lineOf(after, key).some(ticket => mayFollow(after, ticket) && isFor(each, ticket.session)) ||
        lineOf(before, key).some(ticket => ticket.wide && isFor(each, ticket.session))
      if (!isTrue) throw new Error(`${key} is said to have been handed over, and was not`)
    }
  }

  // Several keys: all or none, in line as well.
  #checkWhole(before: State, after: State): void {
    const wide = new Map<string, Ticket[]>()
    for (const ticket of [...before.tickets, ...after.tickets])
      if (ticket.wide) wide.set(ticket.request, [...(wide.get(ticket.request) ?? []), ticket])
    for (const [request, tickets] of wide) {
      const keys = new Set(tickets.map(({ key }) => key))
      const [{ session } = { session: '' }] = tickets
      if (!isLive(after, session)) continue
      const waits = after.tickets.filter(each => each.request === request).length
      const holds = after.grants.filter(each => each.request === request && !each.released).length
      if (holds > 0 && waits > 0)
        throw new Error('a request for several keys holds one and waits for another')
      if (![0, keys.size].includes(waits) || ![0, keys.size].includes(holds))
        throw new Error(`of ${keys.size} keys, a request waits for ${waits} and holds ${holds}`)
    }
  }

  #checkLines(after: State): void {
    for (const { key } of after.tickets)
      if (!after.rows.get(key)?.contended)
        throw new Error(`somebody waits for ${key}, which is not contended`)
    for (const { key } of after.grants)
      if (!after.rows.has(key)) throw new Error(`${key} is held, and has no row`)
  }
}
