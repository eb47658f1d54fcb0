import type { Answer } from '../database/answers.ts'
import type { Session } from '../session/session.ts'

/** Milliseconds: the first look where no notification can be expected, and the shortest time between two. */
const shortest = 20

/**
 * When to look again for those in line: within the poll interval at the latest, and when the holder's session is due to
 * expire; where nothing would wake us, after a pause that grows from 20 ms up to the poll interval.
 */
export class Watch {
  readonly #poll: number
  readonly #isListening: () => boolean
  readonly #lookAfter: (session: Session) => void
  readonly #sessions: () => Session[]
  readonly #isWaiting: (session: Session) => boolean
  /** Looks so far that a timer began. */
  polls = 0
  #timer: NodeJS.Timeout | undefined
  #dueAt = Number.POSITIVE_INFINITY

  constructor(
    poll: number,
    isListening: () => boolean,
    lookAfter: (session: Session) => void,
    sessions: () => Session[],
    isWaiting: (session: Session) => boolean,
  ) {
    this.#poll = poll
    this.#isListening = isListening
    this.#lookAfter = lookAfter
    this.#sessions = sessions
    this.#isWaiting = isWaiting
  }

  /** Somebody has joined the line. */
  queued(session: Session, expiresIn: number | null): void {
    session.pollDelay = shortest
    this.#lookAt(session, Math.min(session.lookAt, this.#next(session, expiresIn)))
  }

  /** A look is over; `answers` are what it brought. */
  looked(session: Session, answers: readonly Answer[]): void {
    if (!this.#isWaiting(session)) {
      session.lookAt = Number.POSITIVE_INFINITY
      return
    }
    const waiting = answers.filter(isInLine)
    if (waiting.length < answers.length) session.pollDelay = shortest
    else session.pollDelay = Math.min(session.pollDelay * 1.5, this.#poll)
    const soonest = Math.min(...waiting.map(answer => answer.expiresIn ?? Number.POSITIVE_INFINITY))
    this.#lookAt(session, this.#next(session, soonest))
  }

  stop(): void {
    clearTimeout(this.#timer)
  }

  #next(session: Session, expiresIn: number | null): number {
    const pause = this.#isListening() ? this.#poll : Math.min(session.pollDelay, this.#poll)
    const due = Math.min(pause * (0.9 + Math.random() / 10), (expiresIn ?? Number.POSITIVE_INFINITY) + 5)
    return performance.now() + Math.max(due, shortest)
  }

  #lookAt(session: Session, at: number): void {
    session.lookAt = at
    if (at >= this.#dueAt) return
    this.#dueAt = at
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#look(), Math.max(at - performance.now(), 0))
    this.#timer.unref()
  }

  #look(): void {
    this.#dueAt = Number.POSITIVE_INFINITY
    const now = performance.now()
    for (const session of this.#sessions()) {
      if (session.isOver) continue
      if (session.lookAt <= now + 1) {
        session.lookAt = Number.POSITIVE_INFINITY
        this.polls += 1
        this.#lookAfter(session)
      } else if (session.lookAt < Number.POSITIVE_INFINITY) {
        this.#lookAt(session, session.lookAt)
      }
    }
  }
}

/** No news of it, also where permits may be passed on to it. */
const isInLine = ({ outcome, token }: Answer) =>
  outcome === 'queued' || (outcome === 'follows' && token === null)
