import type { Answer, Ask } from './database.ts'
import { grantsOf, isInRun, mayFollow, type State } from './state.ts'

/** Whether each request was answered, once, and with what is so. Answers those that have to be sent again. */
export function checkAnswers(
  before: State,
  after: State,
  asks: readonly Ask[],
  answers: readonly Answer[],
): string[] {
  const again: string[] = []
  for (const request of new Set(asks.map(ask => ask.request))) {
    const own = asks.filter(ask => ask.request === request)
    const all = answers.filter(answer => answer.request === request)
    // Who follows in a run is in line, and may be told both.
    const follows = all.some(({ outcome }) => outcome === 'follows')
    const heard = follows ? all.filter(({ outcome }) => outcome !== 'queued') : all
    const outcomes = new Set(heard.map(({ outcome }) => outcome))
    const is = (each: { request: string | null; session: string }) => each.request === request
    const holds = after.grants.filter(grant => is(grant) && !grant.released)
    const waits = after.tickets.filter(is)
    // Behind a try for several keys that is over by the end of the call.
    if (outcomes.size === 2 && heard[0]?.outcome === 'queued' && outcomes.has('granted')) heard.shift()
    if (heard[0]?.outcome === 'granted') outcomes.delete('queued')
    // Whom one look at the line says may follow, the next one in the same call may grant.
    if (heard[0]?.outcome === 'follows' && heard[0].token === null && outcomes.delete('granted')) {
      heard.shift()
      outcomes.delete('follows')
      outcomes.add('granted')
    }
    if (outcomes.size === 2 && outcomes.has('mismatch') && outcomes.has('again')) outcomes.delete('again')
    if (outcomes.size !== 1)
      throw new Error(`a request was answered ${[...outcomes].join(' and ') || 'nothing'}`)
    const [outcome] = outcomes
    const tokens = (rows: readonly { token: string | null }[]) =>
      rows
        .map(({ token }) => token)
        .sort()
        .join()
    const holdsSaid = tokens(holds) === tokens(heard)
    const inRun = waits.filter(ticket => isInRun(after, ticket))
    const right = {
      granted: () => holdsSaid && heard.length === holds.length && waits.length === 0,
      follows: () =>
        heard.some(({ token }) => token !== null)
          ? tokens(inRun) === tokens(heard)
          : waits.length === own.length && waits.every(ticket => mayFollow(after, ticket)),
      queued: () => waits.length === own.length && holds.length === 0 && own.every(ask => ask.waits),
      busy: () => waits.length + holds.length === 0 && own.every(ask => !ask.waits),
      mismatch: () =>
        waits.length + holds.length === 0 &&
        own.some(ask => isMismatch(ask, before, after) || asks.some(other => isOtherKind(ask, other))),
      again: () => waits.length + holds.length === 0,
      // What it left is not taken away by that.
      dead: () => true,
    }[outcome ?? '']
    if (!right?.()) throw new Error(`a request was answered ${outcome}, which is not so`)
    if (outcome === 'again') again.push(request)
  }
  return again
}

// By the key as it is, or by another request of the same call that came before it.
function isMismatch({ key, mode, capacity }: Ask, before: State, after: State): boolean {
  return [before, after].some(state => {
    const row = state.rows.get(key)
    if (!row) return false
    return (
      (row.mode === 'permits') !== (mode === 'permits') || (mode === 'permits' && row.capacity !== capacity)
    )
  })
}

const isOtherKind = (one: Ask, other: Ask) =>
  one.key === other.key &&
  ((one.mode === 'permits') !== (other.mode === 'permits') || one.capacity !== other.capacity)

/** What a session holds by its heartbeat: how many, and their tokens, one over the other. */
export function heldBy(state: State, session: string): { held: number; tokens: bigint } {
  const keys = [...state.rows.keys()]
  const own = keys
    .flatMap(key => grantsOf(state, key))
    .filter(grant => grant.session === session && !grant.released && grant.forced === 'no')
  return { held: own.length, tokens: own.reduce((xor, { token }) => xor ^ BigInt(token), 0n) }
}
