import { Calling, text, truth } from './calling.ts'
import type { Row } from './connection.ts'
import type { Wire } from './lane.ts'

/** A row of the SQL type `schedule_state`. Slots are milliseconds since 1970. */
export interface ScheduleState {
  /** JSON of the definition that rules. */
  readonly definition: string
  readonly version: number | undefined
  /** Counts the definitions that have ruled. */
  readonly edition: number
  /** The last slot that is decided. */
  readonly upto: number
  /** A tick is due or started. */
  readonly isOpen: boolean
  /** The node that asked has another definition. */
  readonly drifts: boolean
  /** Milliseconds since 1970. */
  readonly serverTime: number
  /** The tick that this call has started. */
  readonly started: { readonly slot: number; readonly attempt: number } | undefined
}

/** Whose tick it is, and under which lease: decimal text. */
interface Lease {
  readonly schedule: string
  readonly token: string
}

/** The SQL functions of schedules, and of what is done once, each as a typed function over a wire. */
export class ScheduleCalls {
  readonly #calling: Calling

  constructor(schema: string) {
    this.#calling = new Calling(schema)
  }

  async announce(
    wire: Wire,
    timeout: number,
    node: {
      readonly schedule: string
      readonly id: string
      /** JSON. */
      readonly definition: string
      readonly version: number | undefined
      readonly owner: string
    },
  ): Promise<ScheduleState> {
    const [row] = await this.#calling.call(wire, timeout, 'announce_schedule', [
      ['schedule', node.schedule],
      ['node', node.id],
      ['definition', node.definition, () => JSON.parse(node.definition)],
      ['version', node.version ?? null],
      ['owner', node.owner],
    ])
    return stateOf(row as Row)
  }

  async leave(wire: Wire, timeout: number, schedule: string, node: string): Promise<void> {
    await this.#calling.call(wire, timeout, 'leave_schedule', [
      ['schedule', schedule],
      ['node', node],
    ])
  }

  /** Undefined: nobody has announced it. */
  async look(
    wire: Wire,
    timeout: number,
    schedule: string,
    node: string,
  ): Promise<ScheduleState | undefined> {
    const [row] = await this.#calling.call(wire, timeout, 'look_schedule', [
      ['schedule', schedule],
      ['node', node],
    ])
    return row && stateOf(row)
  }

  /** Records slots, and starts a tick. @param how what the SQL function says of its arguments */
  async take(
    wire: Wire,
    timeout: number,
    { schedule, token }: Lease,
    how: {
      readonly edition: number
      readonly slots: readonly number[]
      readonly owner: string
      readonly starts: boolean
      readonly followed: boolean
    },
  ): Promise<ScheduleState> {
    const [row] = await this.#calling.call(wire, timeout, 'take_tick', [
      ['schedule', schedule],
      ['token', token],
      ['edition', how.edition],
      ['slots', `{${how.slots.join(',')}}`, () => how.slots],
      ['owner', how.owner],
      ['starts', how.starts],
      ['followed', how.followed],
    ])
    return stateOf(row as Row)
  }

  /** Whether it was recorded so. */
  async end(
    wire: Wire,
    timeout: number,
    { schedule, token }: Lease,
    tick: { readonly slot: number; readonly attempt: number },
    how: { readonly failed: boolean; readonly error: string | null },
  ): Promise<boolean> {
    const [row] = await this.#calling.call(wire, timeout, 'end_tick', [
      ['schedule', schedule],
      ['token', token],
      ['slot', tick.slot],
      ['attempt', tick.attempt],
      ['failed', how.failed],
      ['error', how.error],
    ])
    return truth(row?.[0])
  }

  /** JSON as the server wrote it. */
  async query(wire: Wire, timeout: number): Promise<string> {
    const [row] = await this.#calling.call(wire, timeout, 'query_schedules', [])
    return text(row?.[0])
  }

  /** The JSON that is kept, null where nothing was returned; undefined: it is not done. */
  async lookOnce(wire: Wire, timeout: number, key: string): Promise<string | null | undefined> {
    const [row] = await this.#calling.call(wire, timeout, 'look_once', [['key', key]])
    return row && (row[0] ?? null)
  }

  /** @param within milliseconds */
  async recordOnce(
    wire: Wire,
    timeout: number,
    key: string,
    token: string,
    result: string | null,
    within: number,
  ): Promise<void> {
    await this.#calling.call(wire, timeout, 'record_once', [
      ['key', key],
      ['token', token],
      ['result', result],
      ['within', within],
    ])
  }
}

function stateOf([
  definition,
  version,
  edition,
  upto,
  isOpen,
  drifts,
  serverTime,
  slot,
  attempt,
]: Row): ScheduleState {
  return {
    definition: text(definition),
    version: version == null ? undefined : Number(version),
    edition: Number(edition),
    upto: Number(upto),
    isOpen: truth(isOpen),
    drifts: truth(drifts),
    serverTime: Number(serverTime),
    started: slot == null ? undefined : { slot: Number(slot), attempt: Number(attempt) },
  }
}
