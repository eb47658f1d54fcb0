import type { Entry, Event, Rule, Run, Violation } from './history.ts'

/** The time during which a handle certainly said "held": from its acquire's answer to the last question answered so. */
export interface Belief {
  readonly key: string
  readonly token: string
  readonly process: string
  /** Undefined: exclusive. */
  readonly mode: string | undefined
  readonly permits: number
  readonly from: number
  until: number
}

const says = (event: Event): boolean => event.state === 'held' || event.state === 'degraded'

/** By the order in which they began. A lock that is downgraded counts as shared from the moment on at which that was asked. */
export function beliefsOf(run: Run): Belief[] {
  const all: Belief[] = []
  const current = new Map<string, Belief>()
  const begin = (name: string, belief: Belief) => {
    current.set(name, belief)
    all.push(belief)
  }
  for (const event of run.events) {
    const { op, phase, key, token, process, mode, permits = 0, t } = event
    if (key === undefined || token === undefined) continue
    const name = `${key} ${event.id}`
    const known = current.get(name)
    if (op === 'acquire' && phase === 'ok')
      begin(name, { key, token, process, mode, permits, from: t, until: 0 })
    else if (known && op === 'downgrade' && phase === 'invoke')
      begin(name, { ...known, mode: 'shared', from: t, until: 0 })
    else if (known && op === 'state' && says(event)) known.until = Math.max(known.until, event.asked ?? t)
  }
  return all.filter(belief => belief.until > belief.from).sort((a, b) => a.from - b.from)
}

/** P1 by the clients' word: no two handles of a key say "held" at one moment, unless both may. */
export const beliefs: Rule = run => {
  const found: Violation[] = []
  const capacities = capacitiesOf(run)
  const live = new Map<string, Belief[]>()
  for (const next of beliefsOf(run)) {
    const others = (live.get(next.key) ?? []).filter(other => other.until > next.from)
    live.set(next.key, [...others, next])
    const tell = (other: Belief, why: string) =>
      found.push({
        rule: 'exclusion',
        key: next.key,
        at: next.from,
        story:
          `${other.process} held token ${other.token} and still said so ${(other.until - next.from).toFixed(1)} ms after ` +
          `${next.process} had been told that it holds token ${next.token}${why}`,
      })
    const other = others.find(one => one.token !== next.token && (!one.mode || one.mode !== next.mode))
    if (other) tell(other, '')
    else if (next.mode === 'permits' && others[0]) {
      const sum = others.reduce((total, { permits }) => total + permits, next.permits)
      const since = Math.min(...others.map(({ from }) => from))
      const most = capacities(next.key, since, next.from)
      if (sum > most) tell(others[0], `: ${sum} permits of ${most}`)
    }
  }
  return found
}

/** Milliseconds for which a grant is believed in without an answer: the ttl of the campaign's clients. */
const believed = 3_000

/** How many permits a key had at the most within a time, by the database's record, or by one that is lost by now. */
function capacitiesOf(run: Run): (key: string, from: number, until: number) => number {
  const [kept, lost] = [changesOf(run.journal), changesOf(run.lost)]
  return (key, from, until) => {
    const list = kept.get(key) ?? []
    // What was granted before a resize is told after it.
    const first = list.findLastIndex(({ at }) => at <= from - believed)
    const within = list.slice(Math.max(first, 0)).filter(({ at }) => at <= until)
    const untilLost = (lost.get(key) ?? []).filter(({ at }) => at > from - believed && at <= until)
    return Math.max(...[...within, ...untilLost].map(({ capacity }) => capacity))
  }
}

function changesOf(journal: readonly Entry[]): Map<string, { at: number; capacity: number }[]> {
  const changes = new Map<string, { at: number; capacity: number }[]>()
  for (const { event, key, at, detail } of journal) {
    if (event !== 'unheld' || key === null || detail.mode !== 'permits') continue
    const list = changes.get(key) ?? []
    changes.set(key, list)
    const capacity = Number(detail.capacity)
    if (list.at(-1)?.capacity !== capacity) list.push({ at, capacity })
  }
  return changes
}
