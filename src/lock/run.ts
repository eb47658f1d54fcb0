/**
 * A run as this process has it: a grant that covers several of its requests, each under a token of its own. They take
 * turns here, without a call, and the database is told when the run ends.
 *
 *   its turn --released--> the next one's turn
 *            --released, but its token was read, or it pinned, or the run has lasted--> over: the rest is next in line
 */
import type { Request } from './request.ts'

interface Follower {
  readonly request: Request
  readonly token: string
}

export class Run {
  /** The token of the grant. */
  readonly grant: string
  /** Of whose turn the database was told last. */
  told: string
  isWatched = false
  readonly #since: number = performance.now()
  readonly #followers: Follower[] = []

  constructor(grant: string) {
    this.grant = grant
    this.told = grant
  }

  /** Whether it was learned of less than so many milliseconds ago: meanwhile everybody else sees only its first. */
  isYoung(most: number): boolean {
    return performance.now() - this.#since < most
  }

  /** In the order of their tokens. One that is known already is passed over, and so is one by a late answer. */
  add(request: Request, token: string): boolean {
    if (request.stage === 'done' || request.givenUp || !isAbove(token, request.offered)) return false
    request.offered = token
    this.#followers.push({ request, token })
    return true
  }

  /** Whose turn it is now: the first who still wants it. */
  next(): Follower | undefined {
    for (;;) {
      const follower = this.#followers.shift()
      if (!follower) return undefined
      const { request, token } = follower
      // Offered another number since, it is in a later run.
      if (request.stage !== 'done' && !request.givenUp && request.offered === token) return follower
    }
  }
}

/** Decimal texts of whole numbers. */
export function isAbove(token: string, other: string): boolean {
  return token.length === other.length ? token > other : token.length > other.length
}
