import type { Entry, Rule, Run, Violation } from './history.ts'

/** Schedules: a tick is started by who holds the lease, each attempt once, and each slot is decided once. */
export const ticksOnce: Rule = run => [...ofTheDatabase(run), ...ofTheProcesses(run)]

const nameOf = ({ detail }: Entry): string => String(detail.name)

function ofTheDatabase({ journal }: Run): Violation[] {
  const found: Violation[] = []
  /** By key. */
  const holders = new Map<string, string>()
  /** How often a slot was started, by schedule and slot. */
  const starts = new Map<string, number>()
  for (const entry of journal) {
    const { event, key, token, at, seq, detail } = entry
    if (key !== null && (event === 'granted' || event === 'renumbered')) holders.set(key, String(token))
    if (key !== null && (event === 'freed' || event === 'idle')) holders.delete(key)
    if (event !== 'tick') continue
    const name = nameOf(entry)
    const tell = (story: string) =>
      found.push({ rule: 'ticks', key: name, at, story: `${detail.slot} ${story} (journal ${seq})` })
    const tick = `${name} ${detail.slot}`
    if (detail.was === null && starts.has(tick)) tell('was decided twice')
    if (detail.was === null) starts.set(tick, 0)
    if (detail.state === 'started' || detail.state === 'finished') {
      const holder = holders.get(`${name}:schedule`)
      if (holder !== token)
        tell(`was ${detail.state} under token ${token}, and the lease was held under ${holder ?? 'none'}`)
    }
    if (detail.state !== 'started') continue
    const attempt = (starts.get(tick) ?? 0) + 1
    starts.set(tick, attempt)
    if (detail.attempt !== attempt)
      tell(`was started as attempt ${detail.attempt}, which would be its attempt ${attempt}`)
  }
  return found
}

/** By schedule, slot, attempt and token. */
function ticksIn(journal: readonly Entry[], isMeant = (_: Entry) => true): Set<string> {
  return new Set(
    journal
      .filter(entry => entry.event === 'tick' && isMeant(entry))
      .map(entry => `${nameOf(entry)} ${entry.detail.slot} ${entry.detail.attempt} ${entry.token}`),
  )
}

function ofTheProcesses({ events, journal, lost }: Run): Violation[] {
  const recorded = ticksIn(journal, ({ detail }) => detail.state === 'started')
  const forgotten = ticksIn(lost)
  const begun = new Map<string, string>()
  return events.flatMap(({ op, phase, key, slot, attempt, token, process, t }) => {
    if (op !== 'tick' || phase !== 'invoke') return []
    const tick = `${key} ${slot} ${attempt}`
    // A promotion has lost that it was started, or that it had ended: it is started again, as was said.
    if (forgotten.has(`${tick} ${token}`)) return []
    const before = begun.get(tick)
    begun.set(tick, process)
    const about = { rule: 'ticks', key, at: t }
    if (before !== undefined)
      return { ...about, story: `${process} ran attempt ${attempt} at ${slot}, which ${before} had run` }
    if (recorded.has(`${tick} ${token}`)) return []
    return {
      ...about,
      story: `${process} ran attempt ${attempt} at ${slot} under token ${token}, which the database has not started`,
    }
  })
}
