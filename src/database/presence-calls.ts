import type { Witness } from './answers.ts'
import { seenBy } from './arguments.ts'
import { Calling, text, truth } from './calling.ts'
import type { Wire } from './lane.ts'

/** A session that shows presence, as others see it. */
export interface Peer {
  /** The same in every answer; it says nothing about whose it is. */
  readonly id: string
  /** Decimal text: of what was shown. */
  readonly generation: string
  /** Milliseconds that it may be gone. */
  readonly grace: number
  /** Its connection is gone just now. */
  readonly isAbsent: boolean
  /** It holds the key that was asked about. */
  readonly holds: boolean
}

/** The SQL functions of presence, each as a typed function over a wire. */
export class PresenceCalls {
  readonly #calling: Calling

  constructor(schema: string) {
    this.#calling = new Calling(schema)
  }

  /** Shows it on this very connection. False: refused. */
  async show(
    wire: Wire,
    timeout: number,
    shown: { readonly session: string; readonly generation: number; readonly grace: number },
    seen: Witness,
  ): Promise<boolean> {
    const [row] = await this.#calling.call(wire, timeout, 'show_presence', [
      ['session', shown.session],
      ['generation', shown.generation],
      ['grace', `${shown.grace} milliseconds`],
      seenBy(seen),
    ])
    return truth(row?.[0])
  }

  /** Takes back all that was shown under lower numbers. False: the session is over. */
  async withdraw(
    wire: Wire,
    timeout: number,
    session: string,
    generation: number,
    seen: Witness,
  ): Promise<boolean> {
    const [row] = await this.#calling.call(wire, timeout, 'withdraw_presence', [
      ['session', session],
      ['generation', generation],
      seenBy(seen),
    ])
    return truth(row?.[0])
  }

  /** On the connection on which the session shows its own. */
  async probe(wire: Wire, timeout: number, session: string, key: string): Promise<Peer[]> {
    const rows = await this.#calling.call(wire, timeout, 'probe_presence', [
      ['session', session],
      ['key', key],
    ])
    return rows.map(([id, generation, grace, isAbsent, holds]) => ({
      id: text(id),
      generation: text(generation),
      grace: Number(grace),
      isAbsent: truth(isAbsent),
      holds: truth(holds),
    }))
  }

  /** The holder of a key has been gone for its grace. False: not so, or it cannot be said now. */
  async reap(
    wire: Wire,
    timeout: number,
    key: string,
    { id, generation }: Peer,
    seen: Witness,
  ): Promise<boolean> {
    const [row] = await this.#calling.call(wire, timeout, 'reap_absent', [
      ['key', key],
      ['peer', id],
      ['generation', generation],
      seenBy(seen),
    ])
    return truth(row?.[0])
  }
}
