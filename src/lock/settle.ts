import type { Settled } from '../database/answers.ts'
import type { Wire } from '../database/lane.ts'
import type { Session } from '../session/session.ts'
import type { Desk } from './desk.ts'
import type { Request } from './request.ts'
import type { Returner } from './returner.ts'
import { isAbove } from './run.ts'

/**
 * The two accounts differ. A row that is neither held, nor being given back, nor still to be told to somebody who asked, is
 * released; what was held before the call and is not in the answer is lost, whose turn it may be by now. What was in
 * flight at either end is left alone.
 */
export async function settle(desk: Desk, wire: Wire, returner: Returner, session: Session): Promise<void> {
  const { calls, callTimeout, knowledge, line } = desk.options
  const heldBefore = [...session.held.keys()]
  const before = new Set([...heldBefore, ...session.returning])
  const undecided = () => line.all().map(request => [request.id, request] as const)
  const askedBefore = undecided()
  const rows = await calls.settle(wire, callTimeout, session.id, knowledge.witness())
  const there = new Set(rows.map(row => row.token))
  const askedSince = new Map(undecided())
  const asked = new Map([...askedBefore, ...askedSince])
  for (const row of rows) {
    const { key, token, requests, forced } = row
    if (forced) session.force(token)
    const known = before.has(token) || session.held.has(token) || session.returning.has(token)
    if (known || requests.length === 0) continue
    // Who was offered a number as high before will not take it, nor will the answer that told of it come again.
    const isExpected = requests.some(id => {
      const request = asked.get(id)
      return request !== undefined && isAbove(token, request.offered)
    })
    if (!isExpected) void returner.release(session, key, lastUnwanted(row, askedSince), token)
  }
  for (const token of heldBefore) {
    const holding = session.held.get(token)
    if (there.has(token) || !holding) continue
    session.held.delete(token)
    holding.lose('expired')
  }
}

/** Of a run that nobody here has: the last token before that of somebody who waits, and is next in line then. */
function lastUnwanted(
  { token, requests, tokens, last }: Settled,
  waiting: ReadonlyMap<string, Request>,
): string {
  const next = tokens[requests.findIndex(request => waiting.has(request))]
  if (next === undefined) return last
  return next === token ? token : String(BigInt(next) - 1n)
}
