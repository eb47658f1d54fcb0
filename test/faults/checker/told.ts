import { beliefsOf } from './beliefs.ts'
import { byKey, type Entry, grain, type Rule } from './history.ts'
import { isDowngrade, type KeyState, permitsOut, replay } from './replay.ts'

/**
 * Whoever is told that it holds is named by the database's record, under that token and level: as a grant, in a run, or as somebody
 * to whom its process may pass on permits that it has under that token.
 */
export const grantsRecorded: Rule = run => {
  const recorded = new Map<string, string>()
  const permits = new Map<string, Entry>()
  const follows = new Map<string, string | null>()
  for (const entry of [...run.lost, ...run.journal]) {
    const { event, key, token, label, session, detail } = entry
    if (event === 'granted' || event === 'renumbered' || event === 'run' || event === 'joined')
      recorded.set(`${key} ${token} ${label}`, String(detail.level ?? token))
    if (event === 'joined' && detail.permits !== null) permits.set(`${key} ${token}`, entry)
    if (event === 'follows') follows.set(`${key} ${label}`, session)
  }
  return run.events.flatMap(({ op, phase, key, token, level, id, t, process }) => {
    if ((op !== 'acquire' && op !== 'downgrade') || phase !== 'ok' || token === undefined) return []
    const passed = permits.get(`${key} ${token}`)
    const isPassed = passed !== undefined && follows.get(`${key} ${id}`) === passed.session
    const granted =
      recorded.get(`${key} ${token} ${id}`) ?? (isPassed ? String(passed.detail.level) : undefined)
    if (granted !== undefined && (level === undefined || level === granted)) return []
    const as = level === undefined ? '' : `, level ${level}`
    const instead = granted === undefined ? '' : `: the level is ${granted}`
    const story = `${process} was told that ${id} holds token ${token}${as}, which the database has not granted to it${instead}`
    return { rule: 'recorded', key, at: t, story }
  })
}

/** Tokens that have left, and are looked at, of each key: who was granted so long ago has been told long since. */
const remembered = 100

/** P5: once a key has been granted to somebody beside whom it cannot be held, no earlier handle says "held". */
export const toldFirst: Rule = run => {
  const next = new Map<string, { at: number; token: string }>()
  for (const [key, entries] of byKey(run.journal)) {
    const open = new Map<string, Entry>()
    for (const { entry, state } of replay(entries)) {
      const { event, token, at } = entry
      if (token === null) continue
      const grants = event === 'granted' || event === 'joined'
      if (grants && !isDowngrade(entry, state)) {
        for (const [before, earlier] of open) {
          if (!excludes(entry, earlier, state)) continue
          next.set(`${key} ${before}`, { at, token })
          open.delete(before)
        }
      }
      if (event === 'renumbered') open.clear()
      if (grants || event === 'renumbered' || event === 'run') open.set(token, entry)
      const [oldest] = open.keys()
      if (open.size > remembered && oldest !== undefined) open.delete(oldest)
    }
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

/** Whether an earlier grant cannot be held beside a new one, and so must be over. Of permits, one that is out no more. */
function excludes(entry: Entry, earlier: Entry, state: KeyState): boolean {
  if (entry.event === 'granted' || earlier.event !== 'joined') return true
  const [own, other] = [entry.detail.permits ?? null, earlier.detail.permits ?? null]
  if (own === null || other === null) return own !== other
  if (state.holders.has(String(earlier.token))) return false
  return permitsOut(state) + Number(own) + Number(other) > state.capacity
}
