import type { Session } from './session.ts'

/** A session that its user shares with nobody. */
export interface Apart {
  readonly ttl: number
  /** Milliseconds that trust may end before the database gives away what the session holds: the least that there ever are. */
  readonly margin: number
  /** Its row is there; again with each that follows on one that was over. */
  opened(session: Session): void
}

/** Which session: the one of a time to live, for all who ask for that, or one apart. */
export type Use = number | Apart
