import { byKey, type Entry, type Rule, type Violation } from './history.ts'
import { firstOf, fits, isDowngrade, type KeyState, replay } from './replay.ts'

/** P3: who is granted has the lowest ticket, whatever was asked for, and nobody is granted past a line. */
export const inLine: Rule = run => {
  const found: Violation[] = []
  for (const [key, entries] of byKey(run.journal)) {
    const left = new Map<string, number>()
    for (const { entry, state } of replay(entries)) {
      const { event, request, detail, at, token, label } = entry
      if (request === null) continue
      if (event === 'unticket') left.set(request, Number(detail.ticket))
      const grants = event === 'granted' || (event === 'joined' && !isDowngrade(entry, state))
      if (!grants) continue
      const own = left.get(request)
      const ahead = [...state.line.values()].filter(({ ticket }) => own === undefined || ticket < own)
      if (ahead.length === 0) continue
      const story = own === undefined ? 'had no ticket' : `had ticket ${own}`
      const least = Math.min(...ahead.map(({ ticket }) => ticket))
      const past = `token ${token} went to ${label}, who ${story}, past ticket ${least}`
      found.push({ rule: 'in-line', key, at, story: past })
    }
  }
  return found
}

/** Milliseconds of a quarantine: the max_ttl of the campaign, then until a tick has come by, though the server be down by then. */
const quarantine = 7_000

/**
 * P3 and P4 for heads and closed lines: no commit leaves somebody at the head of a line who could be granted beside those
 * who hold the key, so that readers there are granted together; nor a key closed, or a head open, for nobody. What is marked
 * is left to the next call, and in a quarantine who asks anew waits.
 */
export const served: Rule = run => {
  const found: Violation[] = []
  const died = new Map<string, number>()
  const quarantines: number[] = []
  for (const { event, session, seq, at, detail } of run.journal) {
    if (event === 'died' && session) died.set(session, seq)
    if (event === 'incarnation' && Number(detail.timeline) !== 0) quarantines.push(at)
  }
  for (const [key, entries] of byKey(run.journal)) {
    const isDead = ({ session, seq }: Pick<Entry, 'session' | 'seq'>) =>
      (died.get(String(session)) ?? seq) < seq
    // What the dead leave in line is cleared away without a look at the line.
    const judged = entries.filter(
      ({ event, session, seq }) => event !== 'write' && (event !== 'unticket' || !isDead({ session, seq })),
    )
    const last = new Set(new Map(judged.map(({ xid, seq }) => [xid, seq])).values())
    let before: Entry | undefined
    for (const { entry, state } of replay(entries)) {
      const story = before && last.has(before.seq) ? unserved(state, before.seq, isDead) : undefined
      const isBound = quarantines.some(at => at <= Number(before?.at) && Number(before?.at) < at + quarantine)
      if (before && story !== undefined && !isBound)
        found.push({ rule: 'served', key, at: before.at, story: `after journal ${before.seq} ${story}` })
      before = entry
    }
  }
  return found
}

function unserved(
  state: KeyState,
  seq: number,
  isDead: (entry: Pick<Entry, 'session' | 'seq'>) => boolean,
): string | undefined {
  if (!state.exists || state.grant.length > 0 || state.isMarked || state.isResting) return undefined
  const first = firstOf(state)
  if (first && isDead({ session: first.session, seq })) return undefined
  if (!first) {
    const isLeft = state.holders.size === 0 && state.mode !== 'permits'
    return isLeft ? 'nobody holds it and nobody waits, and its row is there' : undefined
  }
  const who = `ticket ${first.ticket} of ${first.label}`
  if (state.mode !== null) return fits(state, first) ? `${who} fits, and is not granted` : undefined
  return first.isWide ? undefined : `${who} is first, and the key is closed for nobody`
}
