import {
  type Answer,
  type Asked,
  type AskedAnew,
  answerOf,
  type Beat,
  type Opened,
  type Settled,
  type Wait,
  type Witness,
} from './answers.ts'
import {
  type Argument,
  eachKey,
  type ForKeys,
  keysOf,
  labelsOf,
  metadataOf,
  passedOf,
  requestsOf,
  seenBy,
  termsOf,
  tokensOf,
} from './arguments.ts'
import { Calling, listed, text, truth } from './calling.ts'
import type { Wire } from './lane.ts'
import { butReleased, notifying, packed, plain } from './shapes.ts'

/** Fewer grants than this cost less as rows than what puts them into one. */
const worthPacking = 8

const releasing = notifying('release')
const releasingAndAsking = notifying('release_and_acquire')

/** The SQL functions of the queue, each as a typed function over a wire. */
export class Calls {
  readonly #calling: Calling

  constructor(schema: string) {
    this.#calling = new Calling(schema)
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
    const [row] = await this.#calling.call(wire, timeout, 'open_session', [
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
    const [row] = await this.#calling.call(wire, timeout, 'heartbeat', [['session', session], seenBy(seen)])
    const [renewed, boot, base, serverTime, held, tokens, forced] = row ?? []
    return {
      renewed: truth(renewed),
      boot: text(boot),
      base: text(base),
      serverTime: Number(serverTime),
      held: Number(held),
      tokens: BigInt(text(tokens)),
      forced: listed(forced),
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
    const [row] = await this.#calling.call(wire, timeout, 'raise_generation', [
      ['session', session],
      ['generation', generation],
      seenBy(seen),
    ])
    return row?.[0] == null ? undefined : Number(row[0])
  }

  async clockStepped(wire: Wire, timeout: number, seen: Witness): Promise<void> {
    await this.#calling.call(wire, timeout, 'clock_stepped', [seenBy(seen)])
  }

  async settle(wire: Wire, timeout: number, session: string, seen: Witness): Promise<Settled[]> {
    const rows = await this.#calling.call(wire, timeout, 'settle', [['session', session], seenBy(seen)])
    return rows.map(([key, token, requests, tokens, last, forced]) => ({
      key: text(key),
      token: text(token),
      requests: listed(requests),
      tokens: listed(tokens),
      last: text(last),
      forced: truth(forced),
    }))
  }

  async acquire(
    wire: Wire,
    timeout: number,
    session: { id: string; generation: number },
    requests: readonly Asked[],
    seen: Witness,
  ): Promise<Answer[]> {
    const asked = eachKey(requests)
    const shape = asked.length < worthPacking ? plain : packed
    return await this.#answers(
      wire,
      timeout,
      'acquire',
      [
        ['session', session.id],
        ['generation', session.generation],
        keysOf(asked),
        requestsOf(asked),
        ['wait', asked.every(one => one.waits) ? undefined : asked.map(one => one.waits)],
        labelsOf(asked),
        metadataOf(asked),
        termsOf(asked),
        seenBy(seen),
      ],
      shape,
    )
  }

  /**
   * What is not in the answer was released, as a rule.
   *
   * @param passed requests in line to which permits were passed on that are given up here
   */
  async release(
    wire: Wire,
    timeout: number,
    session: string,
    grants: readonly { key: string; token: string }[],
    seen: Witness,
    passed: readonly string[] = [],
  ): Promise<Answer[]> {
    return await this.#answers(
      wire,
      timeout,
      'release',
      [
        ['session', session],
        keysOf(grants),
        tokensOf(grants),
        ['durable', false],
        seenBy(seen),
        passedOf(passed),
      ],
      butReleased,
    )
  }

  /**
   * The same of keys that are waited for: the server wakes who has them next. Of those the answer names the channel only if it
   * is our own.
   *
   * @param anew of one grant: its key is asked for again
   */
  async releaseAndNotify(
    wire: Wire,
    timeout: number,
    session: string,
    grants: readonly { key: string; token: string }[],
    seen: Witness,
    passed: readonly string[],
    channel: string,
    anew?: AskedAnew,
  ): Promise<Answer[]> {
    const args: Argument[] = [
      ['session', session],
      keysOf(grants),
      tokensOf(grants),
      seenBy(seen),
      ['own', channel],
      passedOf(passed),
    ]
    if (anew) {
      const { generation, asked } = anew
      args.push(
        ['generation', generation],
        requestsOf(asked),
        labelsOf(asked),
        metadataOf(asked),
        termsOf(asked),
      )
    }
    const shape = anew ? releasingAndAsking : releasing
    return await this.#answers(wire, timeout, 'release_and_notify', args, shape)
  }

  async turn(
    wire: Wire,
    timeout: number,
    session: string,
    turns: readonly { key: string; token: string; request?: string | undefined }[],
    seen: Witness,
  ): Promise<void> {
    await this.#calling.call(wire, timeout, 'turn', [
      ['session', session],
      keysOf(turns),
      tokensOf(turns),
      seenBy(seen),
      ...(turns.some(({ request }) => request !== undefined)
        ? [requestsOf(turns.map(({ request }) => ({ id: request ?? 'NULL' })))]
        : []),
    ])
  }

  async cancel(
    wire: Wire,
    timeout: number,
    session: string,
    given: readonly ForKeys[],
    seen: Witness,
  ): Promise<Answer[]> {
    const requests = eachKey(given)
    return await this.#answers(wire, timeout, 'cancel', [
      ['session', session],
      keysOf(requests),
      requestsOf(requests),
      ['durable', false],
      seenBy(seen),
    ])
  }

  async tick(
    wire: Wire,
    timeout: number,
    session: string,
    given: readonly ForKeys[],
    seen: Witness,
  ): Promise<Answer[]> {
    const requests = eachKey(given)
    return await this.#answers(wire, timeout, 'tick', [
      ['session', session],
      keysOf(requests),
      requestsOf(requests),
      seenBy(seen),
    ])
  }

  /** @param lost whether what runs under its locks may not have stopped */
  async closeSession(
    wire: Wire,
    timeout: number,
    session: string,
    seen: Witness,
    lost: boolean,
  ): Promise<Answer[]> {
    return await this.#answers(wire, timeout, 'close_session', [
      ['session', session],
      seenBy(seen),
      ['lost', lost],
    ])
  }

  async downgrade(
    wire: Wire,
    timeout: number,
    session: string,
    grant: { key: string; token: string },
    seen: Witness,
  ): Promise<Answer[]> {
    return await this.#answers(wire, timeout, 'downgrade', [
      ['session', session],
      ['key', grant.key],
      ['token', grant.token],
      seenBy(seen),
    ])
  }

  async resize(
    wire: Wire,
    timeout: number,
    session: string | undefined,
    key: string,
    capacity: number,
    seen: Witness,
  ): Promise<Answer[]> {
    return await this.#answers(wire, timeout, 'resize', [
      ['session', session ?? null],
      ['key', key],
      ['capacity', capacity],
      seenBy(seen),
    ])
  }

  /** All that a request in line waits for. */
  async waitsFor(wire: Wire, timeout: number, session: string, request: string): Promise<Wait[]> {
    const rows = await this.#calling.call(wire, timeout, 'waits_for', [
      ['session', session],
      ['request', request],
    ])
    return rows.map(([waiter, ticket, key, owner, blocker, alternative]) => ({
      waiter: Number(waiter),
      ticket: ticket == null ? undefined : BigInt(ticket),
      key: key ?? undefined,
      owner: owner ?? null,
      blocker: Number(blocker),
      isAlternative: truth(alternative),
    }))
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
    const rows = await this.#calling.call(wire, timeout, name, args, shape)
    return rows.map(answerOf)
  }
}
