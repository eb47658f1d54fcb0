import { plain } from './plpgsql.ts'

/**
 * What a piece of SQL touches, as far as others can tell. Two steps whose footprints do not clash may change places
 * without anybody noticing; the explorer then tries one order only. Too large a footprint costs time, too small a one
 * costs interleavings: where in doubt, more.
 */
export interface Footprint {
  /** Tables whose committed rows it reads. */
  readonly sees: ReadonlySet<string>
  /** Tables in which it takes row locks that exclude others of the same kind: writes, FOR UPDATE, FOR NO KEY UPDATE. */
  readonly locks: ReadonlySet<string>
  /** Tables in which it takes FOR KEY SHARE. */
  readonly shares: ReadonlySet<string>
  /** Tables that it changes. */
  readonly writes: ReadonlySet<string>
  /** Draws tickets: what it inserts nobody else can lock before it is committed. */
  readonly tickets: boolean
  /** Reads the clock. */
  readonly clock: boolean
  /** Draws from the fencing sequence. */
  readonly draws: boolean
  /** Reads what was drawn from it. */
  readonly counts: boolean
}

export const tables: readonly string[] = [
  'cluster',
  'canary',
  'reaper',
  'sessions',
  'locks',
  'holders',
  'waiters',
  'events',
  'fences',
  'schedules',
  'schedule_nodes',
  'ticks',
  'once',
]

export const nothing: Footprint = {
  sees: new Set(),
  locks: new Set(),
  shares: new Set(),
  writes: new Set(),
  tickets: false,
  clock: false,
  draws: false,
  counts: false,
}

/** The footprint of a statement by its text alone, without what the functions that it calls touch. */
export function footprintOf(sql: string): Footprint {
  // The view `here` is the cluster row, if the canary says so.
  const text = plain(sql)
    .toLowerCase()
    .replaceAll(/\b(from|join) here\b/g, '$1 cluster, canary')
  const named = new Set(tables.filter(table => new RegExp(`\\b${table}\\b`).test(text)))
  const changes = /\b(insert\s+into|update\s+\w+\s+(\w+\s+)?set|delete\s+from)\b/.test(text)
  const locks = changes || /\bfor\s+(no\s+key\s+)?update\b/.test(text)
  const tickets = /\binsert\s+into\s+waiters\b/.test(text)
  const shares = !locks && /\bfor\s+(key\s+)?share\b/.test(text)
  return {
    sees: named,
    locks: locks && !tickets ? named : nothing.locks,
    shares: shares ? named : nothing.shares,
    writes: changes ? named : nothing.writes,
    tickets,
    clock: /\bclock_timestamp\b|\bexplorer\.now\b/.test(text),
    draws: /\bnextval\b/.test(text),
    counts: /last_value/.test(text),
  }
}

export function union(...parts: readonly Footprint[]): Footprint {
  const all = (pick: (part: Footprint) => ReadonlySet<string>) =>
    new Set(parts.flatMap(part => [...pick(part)]))
  return {
    sees: all(part => part.sees),
    locks: all(part => part.locks),
    shares: all(part => part.shares),
    writes: all(part => part.writes),
    tickets: parts.some(part => part.tickets),
    clock: parts.some(part => part.clock),
    draws: parts.some(part => part.draws),
    counts: parts.some(part => part.counts),
  }
}

/** The part of a statement up to where it has found its rows and not yet locked them. */
export function lookingOnly(part: Footprint): Footprint {
  return { ...part, locks: nothing.locks, shares: nothing.shares, writes: nothing.writes }
}

/** The same without what it does with the rows of these tables: nobody else can tell. */
export function without(part: Footprint, tables: readonly string[]): Footprint {
  const rest = (names: ReadonlySet<string>) => new Set([...names].filter(name => !tables.includes(name)))
  return { ...part, sees: rest(part.sees), locks: rest(part.locks), shares: rest(part.shares) }
}

/** Whether it touches anything at all. */
export function matters(part: Footprint): boolean {
  return part.sees.size + part.locks.size > 0 || part.tickets || part.draws || part.counts || part.clock
}
