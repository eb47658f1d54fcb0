import { byKey, type Rule, type Violation } from './history.ts'
import { isDowngrade, replay } from './replay.ts'

/** P2 by the database's record: of each key, every grant carries a higher token than all before it. */
export const tokensRise: Rule = run => {
  const found: Violation[] = []
  for (const [key, entries] of byKey(run.journal)) {
    let highest = 0n
    let last: string | null = null
    const renumbered = new Set(
      entries.filter(({ event }) => event === 'renumbered').map(({ detail }) => String(detail.from)),
    )
    for (const { entry, state } of replay(entries)) {
      const { event, token, seq, at } = entry
      if (token === null || (event !== 'granted' && event !== 'renumbered' && event !== 'joined')) continue
      if (event === 'granted' && (renumbered.has(token) || token.startsWith('-'))) continue
      if (event === 'joined' && isDowngrade(entry, state)) continue
      if (BigInt(token) <= highest) {
        found.push({
          rule: 'tokens',
          key,
          at,
          story: `token ${token} was granted (journal ${seq}) after ${last}`,
        })
      } else {
        highest = BigInt(token)
        last = token
      }
    }
  }
  return found
}

/**
 * P2 by the clients' word: who asks after another was told its token gets a higher one. Not of permits, which keep their token
 * when they are passed on.
 */
export const tokensRiseForClients: Rule = run => {
  const found: Violation[] = []
  const highest = new Map<string, { t: number; token: bigint; process: string }[]>()
  const asked = new Map<string, number>()
  for (const { op, phase, id, key, token, t, process, mode } of run.events) {
    if (op !== 'acquire' || key === undefined || mode === 'permits') continue
    if (phase === 'invoke') asked.set(id, t)
    if (phase !== 'ok' || token === undefined) continue
    const list = highest.get(key) ?? []
    highest.set(key, list)
    const since = asked.get(id) ?? t
    // The list holds rising maxima only, so the last one answered before we asked is the highest.
    const before = list.findLast(other => other.t < since)
    if (before && before.token >= BigInt(token)) {
      const story = `${process} was granted token ${token} though ${before.process} had been told token ${before.token} before it asked`
      found.push({ rule: 'tokens', key, at: t, story })
    }
    const top = list.at(-1)
    if (!top || BigInt(token) > top.token) list.push({ t, token: BigInt(token), process })
  }
  return found
}
