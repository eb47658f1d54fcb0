import { type Answer, answerOf, type Witness } from './answers.ts'
import { seenBy } from './arguments.ts'
import { Calling, text } from './calling.ts'
import { standbyError } from './check.ts'
import type { Wire } from './lane.ts'
import { quoteIdentifier } from './migrations/quote.ts'

/** What `incarnation()` answers: nulls in a life of the server that nobody has entered yet. */
export interface Incarnation {
  readonly boot: string | null
  /** Decimal text. */
  readonly base: string | null
  /** Milliseconds since 1970 by the server's clock: when it was first seen. */
  readonly since: number | null
  /** The same; null: newcomers are granted what is free. */
  readonly quarantinedUntil: number | null
}

/** What `leader()` answers. Times are milliseconds since 1970 by the server's clock. */
export interface LeaderRow {
  readonly identity: string
  /** JSON; null: it has said nothing of itself. */
  readonly value: string | null
  /** Decimal text. */
  readonly token: string
  readonly owner: string | null
  readonly since: number
  readonly renewedAt: number
  /** Milliseconds. */
  readonly ttl: number
  /** Milliseconds until its session expires unless that is renewed; 0: it has, and its death is not stored. */
  readonly expiresIn: number
}

/** The SQL functions for people, each as a typed function over a wire. Columns have names: drivers make objects of rows. */
export class SightCalls {
  readonly #schema: string
  readonly #calling: Calling

  constructor(schema: string) {
    this.#schema = quoteIdentifier(schema)
    this.#calling = new Calling(schema, 'invoke_operator')
  }

  /** Reads, at whatever isolation level: JSON as the server wrote it. */
  async query(wire: Wire, timeout: number, key: string | undefined): Promise<string> {
    const [row] = await wire.query(
      () => ({ text: `select ${this.#schema}.query($1::text)::text`, values: [key ?? null] }),
      timeout,
    )
    return text(row?.[0])
  }

  /** @throws the error of a standby (25006): behind a query function it may have taken the primary's place */
  async incarnation(wire: Wire, timeout: number): Promise<Incarnation> {
    const [row] = await wire.query(
      () => ({
        text:
          'select i.boot::text, i.base::text, (extract(epoch from i.since) * 1000)::text as since, i.standby::text, ' +
          '(extract(epoch from i.quarantined_until) * 1000)::text as quarantined_until ' +
          `from ${this.#schema}.incarnation() i`,
        values: [],
      }),
      timeout,
    )
    const [boot, base, since, standby, quarantined] = row ?? []
    if (standby === 'true') throw standbyError()
    return {
      boot: boot ?? null,
      base: base ?? null,
      since: since == null ? null : Number(since),
      quarantinedUntil: quarantined == null ? null : Number(quarantined),
    }
  }

  /** Reads, as `query` does. Undefined: nobody leads. */
  async leader(wire: Wire, timeout: number, key: string): Promise<LeaderRow | undefined> {
    const [row] = await wire.query(
      () => ({
        text:
          'select l.identity, l.value::text as value, l.token::text as token, l.owner, ' +
          '(extract(epoch from l.since) * 1000)::text as since, ' +
          '(extract(epoch from l.renewed_at) * 1000)::text as renewed_at, ' +
          '(extract(epoch from l.ttl) * 1000)::text as ttl, l.expires_in::text as expires_in ' +
          `from ${this.#schema}.leader($1::text) l`,
        values: [key],
        name: 'fencepost_leader',
      }),
      timeout,
    )
    if (!row) return undefined
    const [identity, value, token, owner, since, renewedAt, ttl, expiresIn] = row
    return {
      identity: text(identity),
      value: value ?? null,
      token: text(token),
      owner: owner ?? null,
      since: Number(since),
      renewedAt: Number(renewedAt),
      ttl: Number(ttl),
      expiresIn: Number(expiresIn),
    }
  }

  async forceRelease(
    wire: Wire,
    timeout: number,
    force: {
      readonly key: string
      readonly token: string | undefined
      readonly reason: string
      readonly now: boolean
      readonly by: string
    },
    seen: Witness,
  ): Promise<Answer[]> {
    const rows = await this.#calling.call(wire, timeout, 'force_release', [
      ['key', force.key],
      ['reason', force.reason],
      ['token', force.token],
      ['now', force.now],
      ['by', force.by],
      seenBy(seen),
    ])
    return rows.map(answerOf)
  }

  /** The base, as decimal text. */
  async raiseBase(
    wire: Wire,
    timeout: number,
    raise: { readonly reason: string; readonly by: string },
    seen: Witness,
  ): Promise<string> {
    const [row] = await this.#calling.call(wire, timeout, 'raise_base', [
      ['reason', raise.reason],
      ['by', raise.by],
      seenBy(seen),
    ])
    return text(row?.[0])
  }
}
