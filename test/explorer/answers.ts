import { type Call, nameOf, type Reply } from './calls.ts'
import type { Clients } from './clients.ts'
import { grantsOf, type State, Violation } from './state.ts'

interface Committed {
  /** Before the commit that was answered. */
  readonly before: State
  readonly state: State
  readonly clients: Clients
}

/** @throws Violation where something else was answered than was committed. */
export function checkAnswers(call: Call, reply: Reply, committed: Committed): void {
  const { state, clients } = committed
  if (call.function === 'release' && call.passed) checkPassed(call, call.passed, reply, committed)
  if (call.function !== 'acquire' && call.function !== 'release_and_acquire') return
  for (const { request, outcome, token, key } of reply.answers) {
    const own = call.places.find(each => each.request === request && (key === null || each.key === key))
    const known = request === null || !own ? undefined : clients.get(request, own.key)
    if (!known || known.is === 'leaving' || known.is === 'gone') continue
    const is = (each: { request: string | null; key: string }) =>
      each.request === request && each.key === own?.key
    const row = grantsOf(state).find(is)
    const ticket = state.waiters.find(is)
    const right =
      outcome === 'granted'
        ? row?.token === token
        : outcome === 'queued'
          ? ticket !== undefined
          : outcome === 'follows'
            ? ticket?.token === token
            : !row && !ticket
    if (!right) throw new Violation(`${call.words} was answered ${outcome}, which is not what was committed`)
  }
}

// Who has had permits is in line no more. What the database has granted it before its process gives back.
function checkPassed(
  { words, places }: Call,
  passed: readonly string[],
  { answers }: Reply,
  { before, state, clients }: Committed,
): void {
  if (answers.some(({ outcome }) => outcome === 'again')) return
  const key = places[0]?.key ?? ''
  for (const id of passed) {
    const is = (each: { request: string | null; key: string }) => each.request === id && each.key === key
    const isGranted = grantsOf(state).some(is)
    if (state.waiters.some(is) || (isGranted && !grantsOf(before).some(is)))
      throw new Violation(`${words} has left ${nameOf(id)} in line, which has had what it waits for`)
    if (!isGranted) clients.hadPermits(id, key)
  }
}
