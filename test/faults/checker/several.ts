import type { Entry, Rule, Violation } from './history.ts'

/** Several keys: in line for all of them or for none, granted all of them or none, given up all of them, by each commit. */
export const allOrNothing: Rule = run => {
  const asked = new Map<string, Set<string>>()
  for (const { op, phase, id, key } of run.events) {
    if (op !== 'acquire' || phase !== 'invoke' || key === undefined) continue
    const keys = asked.get(id)
    if (keys) keys.add(key)
    else asked.set(id, new Set([key]))
  }
  const died = new Map<string, number>()
  for (const { event, session, seq } of run.journal) if (event === 'died' && session) died.set(session, seq)
  const found: Violation[] = []
  for (const [label, entries] of byLabel(run.journal)) {
    const keys = asked.get(label)
    if (!keys || keys.size === 1) continue
    const isWhole = (part: ReadonlySet<string>) => part.size === 0 || part.size === keys.size
    const inLine = new Set<string>()
    for (const commit of commits(entries)) {
      const granted = apply(commit, inLine)
      const [first, last] = [commit[0], commit.at(-1)]
      const tell = (what: string, part: ReadonlySet<string>) =>
        found.push({
          rule: 'all-or-nothing',
          key: first?.key ?? undefined,
          at: first?.at ?? 0,
          story: `${label} asked for ${[...keys].join(', ')}, and ${what} ${[...part].join(', ')} alone (journal ${first?.seq})`,
        })
      if (!isWhole(granted)) tell('was granted', granted)
      // The tickets of the dead are cleared away one by one.
      const session = commit.find(entry => entry.session !== null)?.session
      const death = died.get(String(session)) ?? Number.POSITIVE_INFINITY
      if (!isWhole(inLine) && death > (last?.seq ?? 0)) tell('is in line for', inLine)
    }
  }
  return found
}

/** What a commit made of one request: the keys that it was granted. */
function apply(entries: readonly Entry[], inLine: Set<string>): Set<string> {
  const granted = new Set<string>()
  for (const { event, key, token } of entries) {
    if (key === null) continue
    if (event === 'ticket') inLine.add(key)
    if (event === 'unticket') inLine.delete(key)
    // Drawn in order to be drawn again, once it is known whether all are to be had.
    if (event === 'renumbered' || (event === 'granted' && !token?.startsWith('-'))) granted.add(key)
    if (event === 'idle' || event === 'freed') granted.delete(key)
  }
  return granted
}

function commits(entries: readonly Entry[]): Iterable<Entry[]> {
  return grouped(entries, ({ xid }) => xid).values()
}

function byLabel(journal: readonly Entry[]): Map<string, Entry[]> {
  const named = journal.filter(({ label, key }) => label !== null && key !== null)
  return grouped(named, ({ label }) => String(label))
}

function grouped(entries: readonly Entry[], by: (entry: Entry) => string): Map<string, Entry[]> {
  const groups = new Map<string, Entry[]>()
  for (const entry of entries) {
    const list = groups.get(by(entry))
    if (list) list.push(entry)
    else groups.set(by(entry), [entry])
  }
  return groups
}
