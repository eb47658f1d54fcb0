import type { Connection } from '../../database/connection.ts'
import type { PresenceCalls } from '../../database/presence-calls.ts'
import type { Knowledge } from '../../session/knowledge.ts'
import type { Session } from '../../session/session.ts'

/** What presence needs of one client. */
export interface PresenceHost {
  readonly calls: PresenceCalls
  readonly knowledge: Knowledge
  /** How notifications come: only a connection on which they do is known to be straight. */
  readonly waking: () => 'listening' | 'polling' | 'connecting'
  /** A connection of one's own, straight to the server; undefined: there is none to be had. @throws what opening one throws */
  connect(timeout: number, signal: AbortSignal): Promise<Connection | undefined>
  /** By whichever of the client's other connections answers first. False: the session is over. @throws when none has answered */
  withdraw(session: string, generation: number): Promise<boolean>
  /** Whether the session is in line for its key. */
  isWaiting(session: Session): boolean
  /** The key has moved on, or is about to. */
  look(session: Session, key: string): void
  /** The ttl alone counts, for now. */
  warn(why: string): void
}
