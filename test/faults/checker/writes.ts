import { byKey, type Rule, type Violation } from './history.ts'
import { replay } from './replay.ts'

const isFenced = (kind: unknown): boolean => kind === 'fence' || kind === 'mark'
/** Of the kinds of writes, those that raise the counter. */
const counts = (kind: unknown): boolean => kind === 'guard' || kind === 'fence'

/** P8 for guards: a write is committed only while the grant that it names is there, and not given back. */
export const guardExact: Rule = run => {
  const found: Violation[] = []
  for (const [key, entries] of byKey(run.journal)) {
    for (const { entry, state } of replay(entries)) {
      const { event, token, label, detail, at } = entry
      if (event !== 'write' || isFenced(detail.kind)) continue
      const current = state.grant[0]?.token ?? null
      if (token === current || state.holders.has(String(token))) continue
      const others = [...(current === null ? [] : [current]), ...state.holders.keys()]
      const story = `the guarded write ${label} under token ${token} was committed while ${others.length === 0 ? 'nobody held the key' : `token ${others.join(', ')} held it`}`
      found.push({ rule: 'guard', key, at, story })
    }
  }
  return found
}

/** P8 for guards: what was read twice under one pin was the same. */
export const readsGuarded: Rule = ({ events }) =>
  events
    .filter(
      ({ op, phase, seen }) => op === 'write' && phase === 'ok' && seen !== undefined && seen[0] !== seen[1],
    )
    .map(({ process, id, key, t, token, seen }) => ({
      rule: 'guard',
      key,
      at: t,
      story: `${process} read ${seen?.join(', then ')} in one transaction, ${id}, under token ${token}`,
    }))

/** P8 for fences: who holds the key is let in. What a fence compares was never above what the last holder has. */
export const fenceLetsIn: Rule = ({ events }) => {
  const held = new Map<string, number>()
  for (const { op, key, token, state, asked, t } of events) {
    if (op !== 'state' || (state !== 'held' && state !== 'degraded')) continue
    const own = `${key} ${token}`
    held.set(own, Math.max(held.get(own) ?? 0, asked ?? t))
  }
  const found: Violation[] = []
  for (const { op, phase, key, token, code, t, process, id, holder } of events) {
    if (op !== 'write' || phase !== 'fail' || code !== 'FP002') continue
    if ((held.get(`${key} ${holder ?? token}`) ?? 0) <= t) continue
    const story = `${process} was refused ${id}, fenced by ${token}, while it held the key`
    found.push({ rule: 'fence', key, at: t, story })
  }
  return found
}

/** P8 for fences: the tokens of a resource's writes never fall. */
export const fenceExact: Rule = run => {
  const found: Violation[] = []
  for (const [key, entries] of byKey(run.journal)) {
    let highest = 0n
    for (const { event, token, label, detail, at } of entries) {
      if (event !== 'write' || !isFenced(detail.kind) || token === null) continue
      if (BigInt(token) < highest) {
        found.push({
          rule: 'fence',
          key,
          at,
          story: `the write ${label} under token ${token} came after one under ${highest}`,
        })
      } else highest = BigInt(token)
    }
  }
  return found
}

/** Acknowledged writes are there exactly once, unless a promotion has lost them, refused ones are not, and no write was built on what another overwrote. */
export const writesKept: Rule = ({ events, lost, final }) => {
  if (!final) return []
  const gone = new Set(lost.filter(({ event }) => event === 'write').map(({ label }) => label))
  const found: Violation[] = []
  const there = new Map(final.ledger.map(row => [row.id, row]))
  for (const { op, phase, id, key, t, process } of events) {
    if (op !== 'write') continue
    if (phase === 'ok' && !there.has(id) && !gone.has(id)) {
      found.push({
        rule: 'writes',
        key,
        at: t,
        story: `${process} was told that ${id} is committed, and it is not there`,
      })
    }
    if (phase === 'fail' && there.has(id)) {
      found.push({
        rule: 'writes',
        key,
        at: t,
        story: `${process} was told that ${id} was refused, and it is there`,
      })
    }
  }
  for (const { key, value } of final.counters) {
    const rows = final.ledger.filter(row => row.key === key && counts(row.kind))
    const seen = new Map<string, string>()
    for (const { id, seen: read } of rows) {
      const other = seen.get(read)
      if (other)
        found.push({
          rule: 'writes',
          key,
          at: 0,
          story: `${id} and ${other} both read ${read}: one was overwritten`,
        })
      seen.set(read, id)
    }
    if (BigInt(value) !== BigInt(rows.length)) {
      found.push({
        rule: 'writes',
        key,
        at: 0,
        story: `the counter says ${value} after ${rows.length} writes`,
      })
    }
  }
  return found
}
