import { type Event, type Rule, type Violation } from './history.ts'

/** Milliseconds after the calm within which everything that waits is served: a ttl, two polls, the longest sections. */
export const served = 12_000

/** P4 and liveness: once the faults have stopped, whoever asked has been answered within the bound. */
export const nobodyForgotten: Rule = ({ events, final }) => {
  if (!final) return []
  const waiting = new Map<string, Event>()
  const killed = new Set<string>()
  for (const event of events) {
    if (event.op === 'process' && event.phase === 'fail') killed.add(event.process)
    if (event.op !== 'acquire') continue
    if (event.phase === 'invoke') waiting.set(event.id, event)
    else waiting.delete(event.id)
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

/** Nothing is left when everybody has gone. */
export const nothingLeft: Rule = ({ final }) =>
  Object.entries(final?.leftovers ?? {})
    .filter(([, count]) => count > 0)
    .map(([name, count]) => ({ rule: 'leftovers', at: 0, story: `${count} of ${name} are left` }))

/** No promise was rejected, and no error thrown, past everybody. */
export const nothingUnhandled: Rule = ({ events }) => {
  const found: Violation[] = []
  for (const { op, t, process, message } of events) {
    if (op === 'unhandled') found.push({ rule: 'unhandled', at: t, story: `${process}: ${message}` })
  }
  return found
}
