import { type Event, grain, type Rule, type Run, type Violation } from './history.ts'

/** The time during which a handle certainly said "held": from its acquire's answer to the last question answered so. */
interface Belief {
  readonly key: string
  readonly token: string
  readonly process: string
  readonly from: number
  until: number
  releasedAt: number
}

const says = (event: Event): boolean => event.state === 'held' || event.state === 'degraded'

function beliefsOf(run: Run): Belief[] {
  const beliefs = new Map<string, Belief>()
  for (const event of run.events) {
    const { op, phase, key, token, process } = event
    if (key === undefined || token === undefined) continue
    const known = beliefs.get(event.id)
    if (op === 'acquire' && phase === 'ok') {
      beliefs.set(event.id, {
        key,
        token,
        process,
        from: event.t,
        until: 0,
        releasedAt: Number.POSITIVE_INFINITY,
      })
    } else if (known && op === 'state' && says(event))
      known.until = Math.max(known.until, event.asked ?? event.t)
    else if (known && op === 'release' && phase === 'invoke') known.releasedAt = event.t
  }
  return [...beliefs.values()].filter(belief => belief.until > belief.from)
}

/** P1 by the clients' word: no two handles of a key say "held" at one moment. */
export const beliefs: Rule = run => {
  const found: Violation[] = []
  const widest = new Map<string, Belief>()
  for (const next of beliefsOf(run).sort((a, b) => a.from - b.from)) {
    const other = widest.get(next.key)
    if (other && other.until > next.from && other.token !== next.token) {
      found.push({
        rule: 'exclusion',
        key: next.key,
        at: next.from,
        story:
          `${other.process} held token ${other.token} and still said so ${(other.until - next.from).toFixed(1)} ms after ` +
          `${next.process} had been told that it holds token ${next.token}`,
      })
    }
    if (!other || next.until > other.until) widest.set(next.key, next)
  }
  return found
}

/** Whoever is told that it holds is named by the database's record, under that token: as the grant, or in its run. */
export const grantsRecorded: Rule = run => {
  const recorded = new Set<string>()
  for (const { event, key, token, label } of run.journal) {
    if (event === 'granted' || event === 'renumbered' || event === 'run')
      recorded.add(`${key} ${token} ${label}`)
  }
  return run.events.flatMap(({ op, phase, key, token, id, t, process }) => {
    if (op !== 'acquire' || phase !== 'ok' || token === undefined) return []
    if (recorded.has(`${key} ${token} ${id}`)) return []
    const story = `${process} was told that ${id} holds token ${token}, which the database has not granted to it`
    return { rule: 'recorded', key, at: t, story }
  })
}

/** P5: once a key has been granted to another, no earlier handle says "held", whichever of a run it is. */
export const toldFirst: Rule = run => {
  const next = new Map<string, { at: number; token: string }>()
  const last = new Map<string, string[]>()
  for (const { event, key, at, token } of run.journal) {
    if (key === null || token === null) continue
    if (event === 'granted') {
      for (const before of last.get(key) ?? []) next.set(`${key} ${before}`, { at, token })
    }
    if (event === 'granted' || event === 'renumbered') last.set(key, [token])
    if (event === 'run') last.get(key)?.push(token)
  }
  return beliefsOf(run).flatMap(({ key, token, process, until }) => {
    const taken = next.get(`${key} ${token}`)
    if (!taken || taken.at + grain >= until) return []
    const late = (until - taken.at - grain).toFixed(1)
    return {
      rule: 'told-first',
      key,
      at: taken.at,
      story: `${process} said that it held token ${token} ${late} ms after the database had granted token ${taken.token}`,
    }
  })
}
