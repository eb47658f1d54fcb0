/** What is committed, as `explorer.state()` answers it. */
export interface State {
  /** Seconds since the schedule began. */
  readonly clock: number
  readonly base: number
  readonly locks: readonly LockRow[]
  readonly holders: readonly HolderRow[]
  readonly waiters: readonly Ticket[]
  readonly sessions: readonly SessionRow[]
  readonly schedules: readonly ScheduleRow[]
  readonly nodes: readonly NodeRow[]
  readonly ticks: readonly TickRow[]
  readonly once: readonly OnceRow[]
}

interface LockRow {
  readonly key: string
  readonly session: string | null
  readonly request: string | null
  readonly token: number
  /** The last of its run. */
  readonly tokenTo: number
  readonly contended: boolean
  readonly released: boolean
  /** Seconds since the schedule began; null: nobody took it by hand. */
  readonly forcedUntil: number | null
  /** Null: exclusive; else it is a head, and nobody's by itself. */
  readonly mode: 'shared' | 'permits' | null
  readonly capacity: number | null
}

interface HolderRow {
  readonly key: string
  readonly session: string
  readonly request: string
  readonly token: number
  readonly permits: number | null
  readonly level: number
  readonly released: boolean
  readonly forcedUntil: number | null
}

/** Who holds a key, by itself or beside others. */
export interface Grant {
  readonly key: string
  readonly session: string
  readonly request: string | null
  readonly token: number
  readonly tokenTo: number
  readonly released: boolean
  readonly forcedUntil: number | null
  readonly mode: 'exclusive' | 'shared' | 'permits'
  readonly permits: number | null
  readonly level: number | null
}

interface Ticket {
  readonly ticket: number
  readonly key: string
  readonly session: string
  readonly request: string
  readonly token: number | null
  readonly mode: 'shared' | 'permits' | null
  readonly permits: number | null
  readonly wide: boolean
  /** Its process may pass permits on to it. */
  readonly follows: boolean
}

interface SessionRow {
  readonly id: string
  readonly generation: number
  readonly dead: boolean
  readonly expiresAt: number
}

interface ScheduleRow {
  readonly name: string
  readonly cron: string
  readonly version: number | null
  readonly attempts: number
  /** Seconds since the schedule of the explorer began. */
  readonly upto: number
}

interface NodeRow {
  readonly name: string
  readonly node: string
  readonly cron: string
  readonly version: number | null
}

export interface TickRow {
  readonly name: string
  readonly slot: number
  readonly state: 'due' | 'started' | 'finished' | 'failed' | 'skipped' | 'missed'
  readonly attempt: number
  readonly token: number | null
}

interface OnceRow {
  readonly key: string
  readonly token: number
  readonly result: unknown
  readonly keptUntil: number
}

/** What came of a schedule when time passed over it, as `explorer.finish()` answers it. */
export interface Finish {
  /** After heartbeats and two rounds of ticks. */
  readonly settled: State
  /** In the order in which everybody let go. */
  readonly grants: readonly { key: string; session: string; request: string; token: number }[]
  /** After that. */
  readonly drained: State
  /** After every session was closed. */
  readonly left: State
}

/** In the order of their tokens. */
export function grantsOf({ locks, holders }: State): Grant[] {
  const alone = locks.flatMap(row =>
    row.session === null
      ? []
      : [{ ...row, session: row.session, mode: 'exclusive' as const, permits: null, level: null }],
  )
  const beside = holders.map(row => ({
    ...row,
    tokenTo: row.token,
    mode: row.permits === null ? ('shared' as const) : ('permits' as const),
  }))
  return [...alone, ...beside].sort((one, other) => one.token - other.token)
}

export const covers = (row: { token: number; tokenTo: number } | undefined, token: number): boolean =>
  row !== undefined && row.token <= token && token <= row.tokenTo

export const isDead = (state: State, session: string): boolean =>
  !state.sessions.some(({ id, dead }) => id === session && !dead)

/** Something that the protocol promises never to happen. */
export class Violation extends Error {
  override readonly name = 'Violation'
}
