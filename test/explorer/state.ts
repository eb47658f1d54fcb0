/** What is committed, as `explorer.state()` answers it. */
export interface State {
  /** Seconds since the schedule began. */
  readonly clock: number
  readonly base: number
  readonly locks: readonly LockRow[]
  readonly waiters: readonly Ticket[]
  readonly sessions: readonly SessionRow[]
}

export interface LockRow {
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
}

interface Ticket {
  readonly ticket: number
  readonly key: string
  readonly session: string
  readonly request: string
  readonly token: number | null
}

interface SessionRow {
  readonly id: string
  readonly generation: number
  readonly dead: boolean
  readonly expiresAt: number
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

export const covers = (row: LockRow | undefined, token: number): boolean =>
  row !== undefined && row.token <= token && token <= row.tokenTo

export const isDead = (state: State, session: string): boolean =>
  !state.sessions.some(({ id, dead }) => id === session && !dead)

/** Something that the protocol promises never to happen. */
export class Violation extends Error {
  override readonly name = 'Violation'
}
