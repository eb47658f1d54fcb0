import type { Answer, Calls } from '../database/calls.ts'
import type { Wire } from '../database/lane.ts'
import type { LossReason } from '../errors.ts'
import type { TransactionHost } from '../guard/transaction.ts'
import type { Metrics } from '../metrics.ts'
import type { Knowledge } from '../session/knowledge.ts'
import type { Session } from '../session/session.ts'
import { Asker } from './asker.ts'
import type { Line } from './line.ts'
import type { LockHost } from './lock.ts'
import type { Request } from './request.ts'
import { Returner } from './returner.ts'

/** What a desk is given by the client that it belongs to. */
export interface DeskOptions {
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
  readonly sessions: { current(ttl: number): Session | undefined; open(ttl: number): Promise<Session> }
  readonly guards: TransactionHost
  readonly metrics: Metrics
  queued(request: Request, session: Session, expiresIn: number | null): void
  looked(session: Session, answers: readonly Answer[]): void
  hinted(keys: readonly string[] | null): void
}

/** Where a client asks and gives back, and what the two have in common. */
export class Desk implements LockHost {
  readonly asker: Asker
  readonly returner: Returner
  readonly options: DeskOptions
  /** Once a call has been answered, an unreachable database is an outage and not a wrong address. */
  everReached = false

  constructor(options: DeskOptions) {
    this.options = options
    this.asker = new Asker(this)
    this.returner = new Returner(this)
  }

  get guards(): TransactionHost {
    return this.options.guards
  }

  release(session: Session, key: string, token: string, since: number): Promise<'released'> {
    return this.returner.release(session, key, token, since)
  }

  lost(reason: LossReason, since: number): void {
    this.options.metrics.lost(reason, since)
  }
}
