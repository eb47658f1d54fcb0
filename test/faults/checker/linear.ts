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

interface State {
  readonly holder: bigint
  readonly highest: bigint
}

function step(state: State, { kind, token }: Operation): State | undefined {
  if (kind === 'take')
    return state.holder === 0n && token > state.highest ? { holder: token, highest: token } : undefined
  if (state.holder !== token) return undefined
  return kind === 'give' ? { ...state, holder: 0n } : state
}

/**
 * Wing and Gong's search, with Lowe's memory of what was tried: whether some order of the operations, each within its
 * time, is one that a single lock could have gone through. Operations without an end need not take place. Undefined: not
 * decided within so many states, for the search is exponential where much is unknown.
 */
export function isLinearizable(operations: readonly Operation[], limit = 300_000): boolean | undefined {
  const list = [...operations].sort((a, b) => a.from - b.from)
  const tried = new Set<string>()
  const stack: { done: ReadonlySet<number>; first: number; state: State }[] = [
    { done: new Set(), first: 0, state: { holder: 0n, highest: 0n } },
  ]
  for (let place = stack.pop(); place; place = stack.pop()) {
    const open = openAt(list, place.done, place.first)
    if (
      open.every(i => list[i]?.until === Number.POSITIVE_INFINITY) &&
      isLast(list, place.first, open, place.done)
    )
      return true
    for (const i of open) {
      const operation = list[i] as Operation
      const state = step(place.state, operation)
      if (!state) continue
      const done = new Set(place.done).add(i)
      let { first } = place
      while (done.delete(first)) first++
      const mark = `${first} ${[...done].sort((a, b) => a - b)} ${state.holder}`
      if (tried.has(mark)) continue
      if (tried.size >= limit) return undefined
      tried.add(mark)
      stack.push({ done, first, state })
    }
  }
  return false
}

/** Those that may be next: not done, and begun before any other that is not done had ended. */
function openAt(list: readonly Operation[], done: ReadonlySet<number>, first: number): number[] {
  const open: number[] = []
  let earliest = Number.POSITIVE_INFINITY
  for (let i = first; i < list.length; i++) {
    const operation = list[i] as Operation
    if (operation.from > earliest) break
    if (done.has(i)) continue
    open.push(i)
    earliest = Math.min(earliest, operation.until)
  }
  return open
}

function isLast(
  list: readonly Operation[],
  first: number,
  open: readonly number[],
  done: ReadonlySet<number>,
): boolean {
  return list.length - first === open.length + [...done].filter(i => i >= first).length
}

/** What the clients' account says of each key. When a grant ended, or whether, it does not say. */
function operationsOf(events: readonly Event[]): Map<string, Operation[]> {
  const keys = new Map<string, Operation[]>()
  const asked = new Map<string, number>()
  for (const { op, phase, id, key, token, t, state, asked: at } of events) {
    if (key === undefined) continue
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
    const verdict = isLinearizable(operations)
    if (verdict) continue
    const story =
      verdict === undefined
        ? `whether its ${operations.length} operations are the history of one lock was not decided: too much is unknown`
        : `no order of its ${operations.length} operations, each within its time, is the history of one lock`
    found.push({ rule: 'linearizable', key, at: 0, story })
  }
  return found
}
