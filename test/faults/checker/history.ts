/** What a run has left for the checker: the clients' events, the database's journal, and the state at the end. */

/** One line of a history; of an acquire of several keys, one for each key, under one id. Times are milliseconds by CLOCK_MONOTONIC, one clock for all processes. */
export interface Event {
  readonly t: number
  readonly process: string
  readonly op: string
  readonly id: string
  readonly phase: 'invoke' | 'ok' | 'fail' | 'unknown'
  readonly key?: string
  /** Decimal. */
  readonly token?: string
  /** Decimal: what a fence compares, where the handle said it. */
  readonly level?: string | undefined
  /** Of an acquire: absent, exclusive. */
  readonly mode?: string
  readonly permits?: number
  /** What a handle answered, and when it was asked. */
  readonly state?: string
  readonly asked?: number
  readonly kind?: string
  /** Of a tick: ISO 8601. */
  readonly slot?: string
  readonly attempt?: number
  /** Of a write fenced by a level: the token of the grant. */
  readonly holder?: string
  /** What was read first and last under a pin. */
  readonly seen?: readonly string[]
  readonly code?: string
  readonly way?: string
  readonly fault?: string
  readonly target?: string
  readonly life?: boolean
  readonly message?: string
  readonly reason?: string
  readonly outcome?: string
  /** What keeps the process alive after it has closed all, as Node names it. */
  readonly left?: readonly string[]
}

/** A row of audit.journal. `at` is cut down to 10 ms: what it tells of happened within the 10 ms after it. */
export interface Entry {
  readonly seq: number
  readonly at: number
  readonly xid: string
  readonly event: string
  readonly key: string | null
  readonly session: string | null
  readonly request: string | null
  readonly token: string | null
  readonly label: string | null
  readonly detail: Readonly<Record<string, unknown>>
}

export interface Final {
  readonly counters: readonly { readonly key: string; readonly value: string }[]
  readonly ledger: readonly {
    readonly id: string
    readonly key: string
    readonly kind: string
    readonly token: string
    readonly seen: string
  }[]
  /** What ought to be empty once everybody has left, by name. */
  readonly leftovers: Readonly<Record<string, number>>
}

export interface Run {
  readonly events: readonly Event[]
  readonly journal: readonly Entry[]
  /** Entries of committed transactions that a promotion has lost: what clients were told then, and what is no more. */
  readonly lost: readonly Entry[]
  /** Undefined while the run goes on. */
  readonly final: Final | undefined
}

export interface Violation {
  readonly rule: string
  readonly key?: string | undefined
  /** What happened, in words. */
  readonly story: string
  /** When, by the history's clock. */
  readonly at: number
}

export type Rule = (run: Run) => Violation[]

/** By how much a time of the journal may be too early. */
export const grain = 10

/** The entries of each key, in order. */
export function byKey(journal: readonly Entry[]): Map<string, Entry[]> {
  const keys = new Map<string, Entry[]>()
  for (const entry of journal) {
    if (entry.key === null) continue
    const list = keys.get(entry.key)
    if (list) list.push(entry)
    else keys.set(entry.key, [entry])
  }
  return keys
}
