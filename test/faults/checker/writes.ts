import { byKey, type Rule, type Violation } from './history.ts'

/** P8 for guards: a write is committed only while the grant that it names is the last one, and not given back. */
export const guardExact: Rule = run => {
  const found: Violation[] = []
  for (const [key, entries] of byKey(run.journal)) {
    let current: string | null = null
    for (const { event, token, label, detail, at } of entries) {
      if (event === 'granted' || event === 'renumbered') current = token
      else if (event === 'freed' || event === 'idle' || event === 'mended') current = null
      else if (event === 'write' && detail.kind !== 'fence' && token !== current) {
        const story = `the guarded write ${label} under token ${token} was committed while ${current === null ? 'nobody held the key' : `token ${current} held it`}`
        found.push({ rule: 'guard', key, at, story })
      }
    }
  }
  return found
}

/** P8 for fences: the tokens of a resource's writes never fall. */
export const fenceExact: Rule = run => {
  const found: Violation[] = []
  for (const [key, entries] of byKey(run.journal)) {
    let highest = 0n
    for (const { event, token, label, detail, at } of entries) {
      if (event !== 'write' || detail.kind !== 'fence' || token === null) continue
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

/** Acknowledged writes are there exactly once, refused ones are not, and no write was built on what another overwrote. */
export const writesKept: Rule = ({ events, final }) => {
  if (!final) return []
  const found: Violation[] = []
  const there = new Map(final.ledger.map(row => [row.id, row]))
  for (const { op, phase, id, key, t, process } of events) {
    if (op !== 'write') continue
    if (phase === 'ok' && !there.has(id)) {
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
    const rows = final.ledger.filter(row => row.key === key && row.kind !== 'pin')
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
