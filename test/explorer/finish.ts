import { nameOf } from './calls.ts'
import type { Clients } from './clients.ts'
import { covers, type Finish, grantsOf, isDead, type State, Violation } from './state.ts'

/**
 * What has come of a schedule when time has passed, everybody has let go, and closed.
 *
 * @param forced tokens of grants that were seen to be marked
 * @throws Violation when somebody was forgotten, or something was left over.
 */
export function checkFinish(
  { settled, grants, drained, left }: Finish,
  clients: Clients,
  forced: ReadonlySet<number>,
): void {
  checkMoved(settled)
  for (const { id, is, key, session, token = 0 } of clients.requests.values()) {
    if (isDead(settled, session) || clients.isOver(session)) continue
    const of = (each: { request: string | null; key: string }) => each.request === id && each.key === key
    const row = grantsOf(settled).find(of)
    const ticket = settled.waiters.find(of)
    const grant = grantsOf(settled).find(
      each => each.key === key && each.session === session && covers(each, token),
    )
    if (is === 'held' && !grant && !forced.has(token))
      throw new Violation(`${nameOf(session)} holds ${key} and has lost it`)
    // What can never fit is told so when it looks.
    if (is === 'waiting' && !row && !ticket && !clients.resized.has(key))
      throw new Violation(`${nameOf(session)} waits for ${key} and is forgotten`)
  }
  checkDrain(settled, grants)
  // A semaphore remembers how many permits there are.
  const locks = drained.locks.filter(({ mode }) => mode !== 'permits')
  const { holders, waiters } = drained
  if (locks.length + holders.length + waiters.length > 0)
    throw new Violation(
      `everybody has let go, and there is still ${JSON.stringify({ locks, holders, waiters })}`,
    )
  const kept = left.locks.filter(({ mode }) => mode !== 'permits')
  if (kept.length + left.holders.length + left.waiters.length + left.sessions.length > 0)
    throw new Violation(
      `every session is closed, and there is still ${JSON.stringify({ ...left, locks: kept })}`,
    )
}

// Nobody's key stays so where somebody could have it.
function checkMoved(settled: State): void {
  for (const { key, session, released, token, mode } of settled.locks) {
    if (released) throw new Violation(`${key} is nobody's, and no tick hands it over`)
    if (session !== null && isDead(settled, session))
      throw new Violation(`${key} is still ${nameOf(session)}'s, who is dead, under ${token}`)
    if (isForgotten(settled, key))
      throw new Violation(`the first in line for ${key} fits, and no tick serves it`)
    const isUsed =
      settled.holders.some(each => each.key === key) || settled.waiters.some(each => each.key === key)
    if (session === null && mode !== 'permits' && !isUsed)
      throw new Violation(`${key} is nobody's, and still there`)
  }
  for (const { key, session, released, token } of settled.holders) {
    if (released || isDead(settled, session))
      throw new Violation(`${key} is still ${nameOf(session)}'s, who is dead or has let go, under ${token}`)
  }
}

function isForgotten(state: State, key: string): boolean {
  const first = state.waiters.find(ticket => ticket.key === key)
  if (!first || !fits(state, first)) return false
  const all = first.wide ? state.waiters.filter(({ request }) => request === first.request) : []
  return all.every(ticket => {
    const head = state.waiters.find(each => each.key === ticket.key)
    return head?.request === ticket.request && fits(state, ticket)
  })
}

function fits(state: State, { key, mode, permits }: State['waiters'][number]): boolean {
  const held = grantsOf(state).filter(grant => grant.key === key)
  if (held.length === 0) return true
  if (held.some(grant => grant.mode !== mode)) return false
  const out = held.reduce((sum, grant) => sum + (grant.permits ?? 0), 0)
  const capacity = state.locks.find(row => row.key === key)?.capacity ?? 0
  return mode === 'shared' || out + (permits ?? 0) <= capacity
}

// Who holds, then the line, let go in their order.
function checkDrain(settled: State, grants: Finish['grants']): void {
  for (const { key } of settled.locks) {
    const of = (each: { key: string }) => each.key === key
    const held = grantsOf(settled).filter(of)
    const names = [...held, ...settled.waiters.filter(of)].map(({ request }) => request)
    const served = grants.filter(of).map(({ request }) => request)
    if (served.join() !== names.join()) {
      throw new Violation(`the line of ${key} is ${names.map(nameOf)}, and served were ${served.map(nameOf)}`)
    }
  }
}
