/** What the SQL functions are asked with, and what they answer. */
import type { Row } from './connection.ts'

/** What a client has seen: it comes with every call (SQL type `witness`). */
export interface Witness {
  /** The highest token base, as decimal text. */
  readonly base: string
  /** Milliseconds since 1970 by the server's clock, in the last answer that carried it. */
  readonly serverTime: number | undefined
  /** Milliseconds since that answer, by the monotonic clock. */
  readonly elapsed: number
}

/** A row of the SQL type `answer`, which says what each outcome means. */
export interface Answer {
  readonly request: string | null
  readonly outcome: string
  readonly token: string | null
  readonly key: string | null
  readonly channel: string | null
  /** Milliseconds, or null. */
  readonly expiresIn: number | null
  readonly level: string | null
}

export interface Opened {
  readonly generation: number
  readonly boot: string
  readonly base: string
  readonly serverTime: number
}

export interface Beat {
  readonly renewed: boolean
  readonly boot: string
  readonly base: string
  readonly serverTime: number
  readonly held: number
  readonly tokens: bigint
  /** Tokens that an operator took: this renewal does not extend them. */
  readonly forced: readonly string[]
}

/** A grant by the database's account. */
export interface Settled {
  readonly key: string
  readonly token: string
  /** Whose it is, all of a run, */
  readonly requests: readonly string[]
  /** and the token of each. */
  readonly tokens: readonly string[]
  /** The last token of the run. */
  readonly last: string
  /** An operator took it. */
  readonly forced: boolean
}

export interface Asked {
  readonly key: string
  /** All of them, where there are several. */
  readonly keys: readonly string[] | undefined
  readonly id: string
  readonly waits: boolean
  readonly label: string | undefined
  readonly metadata: string | undefined
  /** What it asks for beyond an exclusive lock of one key: the SQL type `terms`, as JSON. */
  readonly terms: string | undefined
}

/** One waits for another: a row of the SQL function `waits_for`, which tells what the nodes are. */
export interface Wait {
  /** 0 is the request that asks. */
  readonly waiter: number
  /** The waiter's place in line, if it is in line. */
  readonly ticket: bigint | undefined
  readonly key: string | undefined
  readonly owner: string | null
  readonly blocker: number
  /** For any one of these, not for all. */
  readonly isAlternative: boolean
}

/** Requests for the key that is given back in the same call, all of which wait. */
export interface AskedAnew {
  readonly generation: number
  readonly asked: readonly Asked[]
}

export function answerOf([request, outcome, token, key, channel, expiresIn, level]: Row): Answer {
  return {
    request: request ?? null,
    outcome: outcome as string,
    token: token ?? null,
    key: key ?? null,
    channel: channel ?? null,
    expiresIn: expiresIn == null ? null : Number(expiresIn),
    level: level ?? null,
  }
}
