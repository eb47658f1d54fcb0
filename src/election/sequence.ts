import type { LeaderRow } from '../database/sight-calls.ts'
import { type Leader, leaderOf } from './leader.ts'

/**
 * What an observer shows next, after what it has shown. Tokens rise: a term that is over, by what was shown, is over for good,
 * also where the record has it again (its release was not flushed before a crash, or a standby was promoted that had not heard
 * of a later one).
 *
 *   nothing --term--> its leader --a later term--> the next leader
 *                         |  the record has it no more, or it was not renewed for a ttl
 *                         v
 *                     vacancy --a later term--> the next leader
 *
 * That a session was not renewed is counted by our own clock, from an answer to a question: the server's may be stepped, and
 * what has then expired by it comes back with the next heartbeat. A term that we meet expired, though, is not shown at all.
 */
export class Sequence {
  #highest = 0n
  /** The token that is shown; null: a vacancy is; undefined: nothing yet. */
  #shown: bigint | null | undefined
  /** The last renewal that we have heard of, and when its answer came. */
  #renewal = { at: 0, heard: 0 }

  /**
   * @param asked when the look was sent, and @param answered when it was answered, by the monotonic clock
   * @returns what is to be shown; undefined: nothing new
   */
  next(row: LeaderRow | undefined, asked: number, answered: number): Leader | null | undefined {
    if (row && this.#leads(row, asked, answered)) {
      const leader = leaderOf(row)
      if (this.#shown === leader.token) return undefined
      this.#highest = leader.token
      this.#shown = leader.token
      return leader
    }
    if (this.#shown === null) return undefined
    this.#shown = null
    return null
  }

  #leads({ token: text, renewedAt, ttl, expiresIn }: LeaderRow, asked: number, answered: number): boolean {
    const token = BigInt(text)
    if (token < this.#highest) return false
    if (token > this.#highest) {
      if (expiresIn === 0) return false
    } else {
      if (this.#shown !== token) return false
      if (renewedAt === this.#renewal.at) return asked - this.#renewal.heard < ttl
    }
    this.#renewal = { at: renewedAt, heard: answered }
    return true
  }
}
