import type { LeaderRow } from '../database/sight-calls.ts'

/** Who leads, by the database's record. Data, with which nothing can be resigned. */
export interface Leader {
  /** Of the election object that was elected: chance, and another one for each. Never a host's name. */
  readonly identity: string
  /** What it says of itself; null: nothing. */
  readonly value: unknown
  /** Of its term. */
  readonly token: bigint
  /** When its term began, by the server's clock. */
  readonly since: Date
  /** When its last renewal reached the server, by that clock; before `since` where it had waited with a session of its own. */
  readonly renewedAt: Date
  /** Milliseconds. */
  readonly ttl: number
  /** What its client calls itself, for people. */
  readonly owner: string | null
}

export function leaderOf({ identity, value, token, owner, since, renewedAt, ttl }: LeaderRow): Leader {
  return {
    identity,
    value: value === null ? null : JSON.parse(value),
    token: BigInt(token),
    since: new Date(since),
    renewedAt: new Date(renewedAt),
    ttl,
    owner,
  }
}
