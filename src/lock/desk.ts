import type { Answer, Calls } from '../database/calls.ts'
import type { Wire } from '../database/lane.ts'
import type { LossReason } from '../errors.ts'
import type { TransactionHost } from '../guard/transaction.ts'
import { type Metrics, ticks } from '../metrics.ts'
import type { Knowledge } from '../session/knowledge.ts'
import type { Session } from '../session/session.ts'
import { Asker } from './asker.ts'
import type { Line } from './line.ts'
import { Lock, type LockHost } from './lock.ts'
import type { Request } from './request.ts'
import { Returner } from './returner.ts'
import type { Run } from './run.ts'

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

  release(lock: Lock, session: Session, since: number): Promise<'released'> {
    const now = ticks()
    this.options.metrics.held(since, now)
    const { key, ownToken, run } = lock
    if (run && lock.isPassable && run.isYoung(this.options.poll) && !session.isOver) {
      this.options.metrics.answeredAt = now
      if (this.passOn(run, session)) {
        this.options.metrics.passed += 1
        return Promise.resolve('released')
      }
    }
    return this.returner.release(session, key, ownToken, run?.grant)
  }

  /** To who follows in the run. False: nobody does any more, or this process does not know whether it holds. */
  passOn(run: Run, session: Session): boolean {
    const trust = session.trust()
    const next = trust === 'held' || trust === 'degraded' ? run.next() : undefined
    if (!next) return false
    this.grant(next.request, next.token, session, run)
    return true
  }

  grant(request: Request, token: string, session: Session, run?: Run): void {
    const lock = new Lock(request.details, token, session, this, this.options.metrics.answeredAt)
    lock.run = run
    session.held.set(run?.grant ?? token, lock)
    request.resolve(lock)
  }

  lost(reason: LossReason, since: number): void {
    this.options.metrics.lost(reason, since)
  }
}
