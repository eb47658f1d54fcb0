import { type Argument, listOf, metadataOf, seenBy, textsOf } from './arguments.ts'
import type { Row, Statement } from './connection.ts'
import type { Wire } from './lane.ts'
import { quoteIdentifier } from './migrations/quote.ts'
import { butReleased, packed, plain, type Shape } from './shapes.ts'

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
}

export interface Asked {
  readonly key: string
  readonly id: string
  readonly waits: boolean
  readonly label: string | undefined
  readonly metadata: string | undefined
}

/** Fewer grants than this cost less as rows than what puts them into one. */
const worthPacking = 8

/**
 * The SQL functions, each as a typed function over a wire. On a connection of our own a function is called as such;
 * elsewhere through the procedure `invoke`, which makes its own transaction at read committed in the same round trip.
 */
export class Calls {
  readonly #schema: string

  constructor(schema: string) {
    this.#schema = quoteIdentifier(schema)
  }

  async openSession(
    wire: Wire,
    timeout: number,
    session: {
      id: string
      ttl: number
      owner: string | undefined
      channel: string | undefined
      info: string
    },
    seen: Witness,
  ): Promise<Opened | undefined> {
    const [row] = await this.#call(wire, timeout, 'open_session', [
      ['session', session.id],
      ['ttl', `${session.ttl} milliseconds`],
      ['owner', session.owner],
      ['channel', session.channel],
      ['info', session.info, () => JSON.parse(session.info)],
      seenBy(seen),
    ])
    if (!row) return undefined
    const [generation, boot, base, serverTime] = row
    return {
      generation: Number(generation),
      boot: text(boot),
      base: text(base),
      serverTime: Number(serverTime),
    }
  }

  async heartbeat(wire: Wire, timeout: number, session: string, seen: Witness): Promise<Beat> {
    const [row] = await this.#call(wire, timeout, 'heartbeat', [['session', session], seenBy(seen)])
    const [renewed, boot, base, serverTime, held, tokens] = row ?? []
    return {
      renewed: truth(renewed),
      boot: text(boot),
      base: text(base),
      serverTime: Number(serverTime),
      held: Number(held),
      tokens: BigInt(text(tokens)),
    }
  }

  /** The new generation, or undefined: the session is over. */
  async raiseGeneration(
    wire: Wire,
    timeout: number,
    session: string,
    generation: number,
    seen: Witness,
  ): Promise<number | undefined> {
    const [row] = await this.#call(wire, timeout, 'raise_generation', [
      ['session', session],
      ['generation', generation],
      seenBy(seen),
    ])
    return row?.[0] == null ? undefined : Number(row[0])
  }

  async clockStepped(wire: Wire, timeout: number, seen: Witness): Promise<void> {
    await this.#call(wire, timeout, 'clock_stepped', [seenBy(seen)])
  }

  async settle(
    wire: Wire,
    timeout: number,
    session: string,
    seen: Witness,
  ): Promise<{ key: string; token: string; request: string }[]> {
    const rows = await this.#call(wire, timeout, 'settle', [['session', session], seenBy(seen)])
    return rows.map(([key, token, request]) => ({
      key: text(key),
      token: text(token),
      request: text(request),
    }))
  }

  async acquire(
    wire: Wire,
    timeout: number,
    session: { id: string; generation: number },
    asked: readonly Asked[],
    seen: Witness,
  ): Promise<Answer[]> {
    const shape = asked.length < worthPacking ? plain : packed
    return await this.#answers(
      wire,
      timeout,
      'acquire',
      [
        ['session', session.id],
        ['generation', session.generation],
        textsOf(
          'keys',
          asked.map(one => one.key),
        ),
        listOf(
          'requests',
          asked.map(one => one.id),
        ),
        ['wait', asked.every(one => one.waits) ? undefined : asked.map(one => one.waits)],
        [
          'labels',
          asked.some(one => one.label !== undefined) ? asked.map(one => one.label ?? null) : undefined,
        ],
        metadataOf(asked),
        seenBy(seen),
      ],
      shape,
    )
  }

  /** What is not in the answer was released, as a rule. */
  async release(
    wire: Wire,
    timeout: number,
    session: string,
    grants: readonly { key: string; token: string }[],
    seen: Witness,
  ): Promise<Answer[]> {
    return await this.#answers(
      wire,
      timeout,
      'release',
      [
        ['session', session],
        textsOf(
          'keys',
          grants.map(grant => grant.key),
        ),
        listOf(
          'tokens',
          grants.map(grant => grant.token),
        ),
        ['durable', false],
        seenBy(seen),
      ],
      butReleased,
    )
  }

  async cancel(
    wire: Wire,
    timeout: number,
    session: string,
    requests: readonly { key: string; id: string }[],
    seen: Witness,
  ): Promise<Answer[]> {
    return await this.#answers(wire, timeout, 'cancel', [
      ['session', session],
      textsOf(
        'keys',
        requests.map(request => request.key),
      ),
      listOf(
        'requests',
        requests.map(request => request.id),
      ),
      ['durable', false],
      seenBy(seen),
    ])
  }

  async tick(
    wire: Wire,
    timeout: number,
    session: string,
    requests: readonly { key: string; id: string }[],
    seen: Witness,
  ): Promise<Answer[]> {
    return await this.#answers(wire, timeout, 'tick', [
      ['session', session],
      textsOf(
        'keys',
        requests.map(request => request.key),
      ),
      listOf(
        'requests',
        requests.map(request => request.id),
      ),
      seenBy(seen),
    ])
  }

  async closeSession(wire: Wire, timeout: number, session: string, seen: Witness): Promise<Answer[]> {
    return await this.#answers(wire, timeout, 'close_session', [['session', session], seenBy(seen)])
  }

  /** After the commit of what it tells of, never inside: a NOTIFY holds a lock of the whole cluster until its flush. */
  async notify(
    wire: Wire,
    timeout: number,
    hints: readonly { channel: string; payload: string }[],
  ): Promise<void> {
    await wire.query(
      () => ({
        text: 'select pg_notify(h.channel, h.payload) from unnest($1::text[], $2::text[]) h(channel, payload)',
        values: [hints.map(hint => hint.channel), hints.map(hint => hint.payload)],
        name: 'fencepost_notify',
      }),
      timeout,
    )
  }

  async #answers(
    wire: Wire,
    timeout: number,
    name: string,
    args: readonly Argument[],
    shape = plain,
  ): Promise<Answer[]> {
    const rows = await this.#call(wire, timeout, name, args, shape)
    return rows.map(([request, outcome, token, key, channel, expiresIn]) => ({
      request: request ?? null,
      outcome: outcome as string,
      token: token ?? null,
      key: key ?? null,
      channel: channel ?? null,
      expiresIn: expiresIn == null ? null : Number(expiresIn),
    }))
  }

  async #call(
    wire: Wire,
    timeout: number,
    name: string,
    args: readonly Argument[],
    shape = plain,
  ): Promise<Row[]> {
    const given = args.filter(([, value]) => value !== undefined)
    let throughInvoke = false
    const rows = await wire.query(direct => {
      throughInvoke = !direct
      return direct ? this.#direct(name, given, shape) : this.#invoke(name, given)
    }, timeout)
    if (!throughInvoke) return shape.read(rows)
    return (JSON.parse(rows[0]?.[0] ?? 'null') as Row[] | null) ?? []
  }

  #direct(name: string, args: readonly Argument[], shape: Shape): Statement {
    const parameters = args.map(([argument], i) => `${argument} => $${i + 1}`)
    return {
      text: shape.text(`${this.#schema}.${name}(${parameters.join(', ')})`),
      values: args.map(([, value]) => value),
      name: `fencepost_${name}${shape.name}_${args.map(([argument]) => argument[0]).join('')}`,
    }
  }

  #invoke(name: string, args: readonly Argument[]): Statement {
    const named = Object.fromEntries(args.map(([argument, value, json]) => [argument, json ? json() : value]))
    return { text: `call ${this.#schema}.invoke($1, $2)`, values: [name, JSON.stringify(named)] }
  }
}

const text = (value: string | null | undefined): string => String(value)
const truth = (value: unknown): boolean => value === 't' || value === true
