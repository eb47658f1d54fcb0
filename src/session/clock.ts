/**
 * A moment by both clocks of this process, in milliseconds. The monotonic one decides; it stands still while the
 * machine is suspended, which only the wall clock can tell.
 */
export interface Moment {
  readonly monotonic: number
  readonly wall: number
}

export const now = (): Moment => ({ monotonic: performance.now(), wall: Date.now() })

/** What the trust that began at `since` is worth now, if it is good for `span` milliseconds. */
export function trustAt(since: Moment, span: number): 'trusted' | 'suspended' | 'over' {
  if (performance.now() - since.monotonic >= span) return 'over'
  const byWall = Date.now() - since.wall
  // A wall clock that says so alone, or that went backwards, proves nothing but that one of the two was moved.
  return byWall >= span || byWall < -1_000 ? 'suspended' : 'trusted'
}

/** An answer that carried the server's time, with the bounds of when that time was read. */
export interface Reading {
  readonly sent: Moment
  readonly answered: Moment
  /** Milliseconds since 1970 by the server's clock. */
  readonly serverTime: number
}

/** How far two of our own clocks, or ours and the server's, may differ before we say that one was moved. */
const tolerance = 1_000

/**
 * Whether the server's clock was stepped between two answers: it moved by more, or less, than lies between them by our
 * clock, delays allowed for, while our own two clocks agree.
 */
export function wasStepped(first: Reading, second: Reading): boolean {
  const byServer = second.serverTime - first.serverTime
  const least = second.sent.monotonic - first.answered.monotonic - tolerance
  const most = second.answered.monotonic - first.sent.monotonic + tolerance
  if (byServer >= least && byServer <= most) return false
  const byMonotonic = second.answered.monotonic - first.answered.monotonic
  const byWall = second.answered.wall - first.answered.wall
  return Math.abs(byWall - byMonotonic) <= tolerance / 2
}
