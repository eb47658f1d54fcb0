import { byKey, type Entry, type Rule, type Violation } from './history.ts'
import { isDowngrade, type KeyState, permitsOut, replay, type Waiting } from './replay.ts'

/** P1 by the database's record: never a writer beside a reader, never more permits than there are. */
export const modesExclude: Rule = run => {
  const found: Violation[] = []
  for (const [key, entries] of byKey(run.journal)) {
    const asked = new Map<string, Waiting>()
    for (const { entry, state } of replay(entries)) {
      const own = entry.event === 'unticket' && state.line.get(String(entry.request))
      if (own) asked.set(String(entry.request), own)
      const alone = entry.event === 'joined' && asked.get(String(entry.request))?.mode === null
      const beside =
        alone && !isDowngrade(entry, state) ? 'others, and had asked to be alone' : besides(entry, state)
      if (beside === undefined) continue
      const story = `token ${entry.token} was granted to ${entry.label} (journal ${entry.seq}) beside ${beside}`
      found.push({ rule: 'exclusion', key, at: entry.at, story })
    }
  }
  return found
}

/** Beside whom an entry grants what it must not; undefined: it is no grant, or fits. */
function besides(entry: Entry, state: KeyState): string | undefined {
  const { event, detail } = entry
  const list = [...state.holders.values()].map(({ token, label }) => `token ${token} of ${label}`).join(', ')
  if (event === 'granted') return state.holders.size > 0 ? list : undefined
  if (event !== 'joined') return undefined
  const [grant] = state.grant
  if (grant && !isDowngrade(entry, state)) return `the exclusive token ${grant.token} of ${grant.label}`
  const isPermit = detail.permits !== null && detail.permits !== undefined
  const others = [...state.holders.values()].filter(other => (other.detail.permits ?? null) !== null)
  if (!isPermit) return others.length > 0 ? list : undefined
  if (others.length < state.holders.size) return list
  const [own, out] = [Number(detail.permits), permitsOut(state)]
  return own + out > state.capacity ? `${list}: ${own} permits and ${out} of ${state.capacity}` : undefined
}

/**
 * P2 for what a fence compares: along the grants of a key it never goes back, and those who hold it together have it in
 * common, not above the token of any of them. Nor is what was granted altered afterwards.
 */
export const levelsRise: Rule = run => {
  const found: Violation[] = []
  const told = new Set<string>()
  for (const { op, phase, key, token } of run.events)
    if (op === 'acquire' && phase === 'ok') told.add(`${key} ${token}`)
  for (const [key, entries] of byKey(run.journal)) {
    const highest = { level: 0n, seq: 0, isShared: false }
    // Whose turn in a run never came has no level.
    const isNone = ({ event, token }: Entry) =>
      token?.startsWith('-') || (event === 'run' && !told.has(`${key} ${token}`))
    const stale = new Set(entries.map(({ event, detail }) => event === 'renumbered' && String(detail.from)))
    for (const { entry, state } of replay(entries)) {
      const { event, token, seq, at } = entry
      const say = (story: string) => found.push({ rule: 'levels', key, at, story })
      if (event === 'altered') say(`the grant of token ${token} was altered (journal ${seq})`)
      const level = levelOf(entry)
      if (level === undefined || token === null || isNone(entry) || (event === 'granted' && stale.has(token)))
        continue
      if (level < highest.level && (event === 'joined' || highest.isShared))
        say(
          `the level of token ${token}, ${level}, is below one before it, ${highest.level} (journal ${highest.seq})`,
        )
      if (level > BigInt(token)) say(`the level of token ${token}, ${level}, is above it`)
      const other = event === 'joined' ? state.holders.values().next().value : undefined
      if (other && String(other.detail.level) !== String(level))
        say(`token ${token} has the level ${level}, and token ${other.token} beside it ${other.detail.level}`)
      if (level > highest.level) Object.assign(highest, { level, seq, isShared: event === 'joined' })
    }
  }
  return found
}

function levelOf({ event, token, detail }: Entry): bigint | undefined {
  if (event === 'joined') return BigInt(String(detail.level))
  if (token === null || (event !== 'granted' && event !== 'renumbered' && event !== 'run')) return undefined
  return BigInt(token)
}
