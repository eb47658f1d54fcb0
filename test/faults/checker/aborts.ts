import { type Event, grain, type Rule, type Run, type Violation } from './history.ts'

/** How long, in milliseconds, a fault that is over still excuses an answer that came without a confirmation. */
const excuse = 7_000
/** The ttl of the campaign's clients, and a margin: a session that is over for its client is over for the database by then. */
const lifetime = 3_000
/** Fencepost waits 1 s for the confirmation: an acquire that was answered sooner than this has it. */
const confirmed = 900

/**
 * P10: once a caller has been told that its acquire was given up, its ticket is gone. Judged where no fault was about,
 * since while the database cannot be reached nothing more is promised than that it ends with the session.
 */
export const abortsClean: Rule = run => {
  const found: Violation[] = []
  const tickets = new Map<string, { session: string | null; gone: number }>()
  const died = new Map<string, number>()
  for (const { event, key, label, session, at } of run.journal) {
    if (event === 'died' && session !== null) died.set(session, at)
    if (label === null || key === null) continue
    const name = `${key} ${label}`
    if (event === 'ticket') tickets.set(name, { session, gone: Number.POSITIVE_INFINITY })
    const ticket = tickets.get(name)
    if (ticket && event === 'unticket') ticket.gone = at
  }
  const end = run.journal.at(-1)?.at ?? 0
  const disturbed = disturbances(run)
  const asked = new Map<string, number>()
  for (const event of run.events) {
    const { op, phase, id, key, t, code, process } = event
    if (op === 'acquire' && phase === 'invoke') asked.set(id, t)
    if (op === 'acquire' && t - (asked.get(id) ?? 0) > confirmed) continue
    if (op !== 'acquire' || phase !== 'fail' || (code !== 'timed_out' && code !== 'aborted')) continue
    const ticket = tickets.get(`${key} ${id}`)
    // The end of a record that is still growing says nothing.
    if (!ticket || ticket.gone <= t + 2 * grain || t > end - 1_000 || disturbed(event)) continue
    // Its client has given up the whole session, which takes the ticket along.
    const death = died.get(String(ticket.session)) ?? Number.NEGATIVE_INFINITY
    if (death > t - confirmed && death < t + lifetime) continue
    const left = Number.isFinite(ticket.gone) ? `${(ticket.gone - t).toFixed(0)} ms longer` : 'for ever'
    found.push({
      rule: 'abort-clean',
      key,
      at: t,
      story: `${process} was told ${code} for ${id}, whose ticket stayed ${left}`,
    })
  }
  return found
}

function disturbances(run: Run): (event: Event) => boolean {
  const faults = new Map<string, { from: number; until: number; target: string | undefined }>()
  for (const { op, phase, id, t, target, life } of run.events) {
    if (op !== 'fault') continue
    // A cancel is not flushed: the crash right after it brings the ticket back.
    const from = life ? t - 1_000 : t
    if (phase === 'invoke') faults.set(id, { from, until: Number.POSITIVE_INFINITY, target })
    else {
      const fault = faults.get(id)
      if (fault) fault.until = t
    }
  }
  const list = [...faults.values()]
  return ({ t, process }) =>
    list.some(
      ({ from, until, target }) =>
        from < t && until > t - excuse && (target === undefined || target === process),
    )
}
