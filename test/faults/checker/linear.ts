import type { Event, Rule, Violation } from './history.ts'

/**
 * An operation on the owner-aware fenced lock, with the time within which it took effect.
 * `take`: nobody holds it, and the token is higher than all before; `give`: that token holds it; so does it at `ask`.
 */
export interface Operation {
  readonly kind: 'take' | 'give' | 'ask'
  readonly token: bigint
  readonly from: number
  /** Infinite: its effect may come at any later time, or never. */
  readonly until: number
}

interface Grant {
  readonly token: bigint
  readonly take: Operation[]
  readonly ask: Operation[]
  readonly give: Operation[]
}

/**
 * Whether some order of the operations, each within its time, is one that a single lock could have gone through. Operations
 * without an end need not take place.
 *
 * No search: a take wants a token above all before it, so the tokens say in which order the takes came, and between two of
 * them come the asks of the first, in any order, then its give. Each at its earliest leaves the most room to what follows.
 */
export function isLinearizable(operations: readonly Operation[]): boolean {
  let now = Number.NEGATIVE_INFINITY
  /** Of whoever took it last; unless it is certain, it need not have come about before somebody else takes. */
  let give: Operation | undefined | null = null
  for (const grant of inOrder(operations)) {
    if (![...grant.take, ...grant.ask, ...grant.give].some(isCertain)) continue
    const taken = theOne(grant.take)
    if (!taken || give === undefined) return false
    if (give) now = Math.max(now, give.from)
    now = Math.max(now, taken.from)
    if (now > taken.until) return false
    const asks = grant.ask.filter(isCertain)
    if (asks.some(ask => now > ask.until)) return false
    now = Math.max(now, ...asks.map(ask => ask.from))
    give = theOne(grant.give)
    if (give && Math.max(now, give.from) > give.until) return false
    if (grant.give.filter(isCertain).length > 1) return false
  }
  return true
}

const isCertain = ({ until }: Operation): boolean => until !== Number.POSITIVE_INFINITY

/** Of operations of which one can take place at most: the one that must, or else the earliest. */
function theOne(operations: readonly Operation[]): Operation | undefined {
  const [first, ...others] = operations.toSorted(
    (a, b) => Number(isCertain(b)) - Number(isCertain(a)) || a.from - b.from,
  )
  return others.some(isCertain) ? undefined : first
}

function inOrder(operations: readonly Operation[]): Grant[] {
  const grants = new Map<bigint, Grant>()
  for (const operation of operations) {
    const { token, kind } = operation
    const grant = grants.get(token) ?? { token, take: [], ask: [], give: [] }
    grants.set(token, grant)
    grant[kind].push(operation)
  }
  return [...grants.values()].sort((a, b) => (a.token < b.token ? -1 : 1))
}

/** What the clients' account says of each key that is only held exclusively. When a grant ended, or whether, it does not say. */
function operationsOf(events: readonly Event[]): Map<string, Operation[]> {
  const keys = new Map<string, Operation[]>()
  const asked = new Map<string, number>()
  const together = new Set(
    events.filter(({ op, mode }) => op === 'acquire' && mode !== undefined).map(({ key }) => key),
  )
  for (const { op, phase, id, key, token, t, state, asked: at } of events) {
    if (key === undefined || together.has(key)) continue
    if (op === 'acquire' && phase === 'invoke') asked.set(id, t)
    if (token === undefined) continue
    const list = keys.get(key) ?? []
    keys.set(key, list)
    if (op === 'acquire' && phase === 'ok') {
      const since = asked.get(id) ?? t
      list.push({ kind: 'take', token: BigInt(token), from: since, until: t })
      // It may have been lost at any time, also before its holder heard of the grant: what he said of it bounds that.
      list.push({ kind: 'give', token: BigInt(token), from: since, until: Number.POSITIVE_INFINITY })
    } else if (op === 'state' && (state === 'held' || state === 'degraded')) {
      list.push({ kind: 'ask', token: BigInt(token), from: at ?? t, until: t })
    }
  }
  return keys
}

/** P1, P2 and P5 together, by the clients' word alone: every key went through some history of one lock. */
export const linearizable: Rule = ({ events, final }) => {
  if (!final) return []
  const found: Violation[] = []
  for (const [key, operations] of operationsOf(events)) {
    if (isLinearizable(operations)) continue
    const story = `no order of its ${operations.length} operations, each within its time, is the history of one lock`
    found.push({ rule: 'linearizable', key, at: 0, story })
  }
  return found
}
