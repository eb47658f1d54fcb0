import type { Answer, Calls } from '../database/calls.ts'
import type { Wire } from '../database/lane.ts'
import type { Knowledge } from '../session/knowledge.ts'
import type { Session } from '../session/session.ts'
import type { Asker } from './asker.ts'
import type { Line } from './line.ts'
import type { LockHost } from './lock.ts'
import type { Request } from './request.ts'
import type { Returner } from './returner.ts'

/** What those who ask and those who give back have in common. */
export interface Desk {
  readonly schema: string
  readonly calls: Calls
  readonly knowledge: Knowledge
  readonly askWire: Wire
  readonly returnWire: Wire
  /** Milliseconds after which a call that is not answered counts as lost. */
  readonly callTimeout: number
  /** Milliseconds between two looks of somebody who waits, at most. */
  readonly poll: number
  readonly channel: string
  readonly line: Line
  readonly asker: Asker
  readonly returner: Returner
  readonly lockHost: LockHost
  readonly sessions: { get(ttl: number): Promise<Session> }
  /** Once a call has been answered, an unreachable database is an outage and not a wrong address. */
  everReached: boolean
  queued(request: Request, session: Session, expiresIn: number | null): void
  looked(session: Session, answers: readonly Answer[]): void
  hinted(keys: readonly string[] | null): void
}
