import type { Entry, Event, Rule, Violation } from './history.ts'

/** Milliseconds after the calm within which everything that waits is served: a ttl, two polls, the longest sections. */
const served = 15_000

/** P4 and liveness: once the faults have stopped, whoever asked has been answered within the bound. */
export const nobodyForgotten: Rule = ({ events, final }) => {
  if (!final) return []
  const waiting = new Map<string, Event>()
  const killed = new Set<string>()
  for (const event of events) {
    if (event.op === 'process' && event.phase === 'fail') killed.add(event.process)
    if (event.op !== 'acquire') continue
    const name = `${event.key} ${event.id}`
    if (event.phase === 'invoke') waiting.set(name, event)
    else waiting.delete(name)
  }
  return [...waiting.values()]
    .filter(({ process }) => !killed.has(process))
    .map(({ process, id, key, t }) => ({
      rule: 'forgotten',
      key,
      at: t,
      story: `${process} asked for it as ${id} and was not answered within ${served / 1_000} s of calm`,
    }))
}

/** A session that is closed leaves nothing in that commit but what a guard pins, which is marked. */
export const givenBack: Rule = ({ journal }) => {
  const found: Violation[] = []
  const last = new Map(journal.map(({ xid, seq }) => [xid, seq]))
  const closed = new Map<number, Entry>()
  /** By session: what it has, as of now. */
  const has = new Map<string, Map<string, Entry>>()
  for (const entry of journal) {
    const { event, session, key, token, request, xid, seq, detail } = entry
    // One whose presence was gone is buried as one that has expired.
    if (event === 'died' && detail.expired === false && detail.absent !== true)
      closed.set(last.get(xid) ?? seq, entry)
    const own = has.get(String(session)) ?? new Map<string, Entry>()
    has.set(String(session), own)
    if (event === 'joined') own.set(`${key} ${token}`, entry)
    if (event === 'left' || event === 'pinned') own.delete(`${key} ${token}`)
    if (event === 'ticket') own.set(`${key} ${request}`, entry)
    if (event === 'unticket') own.delete(`${key} ${request}`)
    const over = closed.get(seq)
    for (const one of over ? (has.get(String(over.session))?.values() ?? []) : []) {
      const what = one.token === null ? 'ticket' : `token ${one.token}`
      const story = `the session of ${over?.label} was closed (journal ${over?.seq}), and the ${what} of ${one.label} is there`
      found.push({ rule: 'given-back', key: one.key ?? undefined, at: one.at, story })
    }
  }
  return found
}

/** Nothing is left when everybody has gone. */
export const nothingLeft: Rule = ({ events, final }) => [
  ...Object.entries(final?.leftovers ?? {})
    .filter(([, count]) => count > 0)
    .map(([name, count]) => ({ rule: 'leftovers', at: 0, story: `${count} of ${name} are left` })),
  ...events
    .filter(({ op, left }) => op === 'close' && left !== undefined && left.length > 0)
    .map(({ process, t, left }) => ({
      rule: 'leftovers',
      at: t,
      story: `${process} has closed its client and its pool, and is kept alive by ${left?.join(', ')}`,
    })),
]

/** What an acquire may be refused with: the codes of the documented errors, `busy` for a try, SQLSTATEs from by hand. */
const explained =
  /^(busy|limit_mismatch|timed_out|aborted|queue_full|lost|closed|unhealthy|unreachable|out_of_connections|read_only|database|again|dead|granted)$/

/** P9: whoever is refused is told why. */
export const refusedInWords: Rule = ({ events }) => {
  const found: Violation[] = []
  for (const { op, phase, id, t, key, code, process } of events) {
    if (op !== 'acquire' || phase !== 'fail' || explained.test(String(code))) continue
    found.push({ rule: 'explained', key, at: t, story: `${process} was refused ${id} with ${code}` })
  }
  return found
}

/** No promise was rejected, and no error thrown, past everybody. */
export const nothingUnhandled: Rule = ({ events }) => {
  const found: Violation[] = []
  for (const { op, t, process, message } of events) {
    if (op === 'unhandled') found.push({ rule: 'unhandled', at: t, story: `${process}: ${message}` })
  }
  return found
}
