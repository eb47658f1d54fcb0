/**
 * The ear of a client: one channel, on the beat connection. What comes is a hint; the table is the truth.
 *
 *   deaf --connected, LISTEN--> probing --the probe came back here, and the connection is claimed--> listening
 *                                  |  sent, and it did not, or on another connection, or not claimed: a pooler --> polling
 *                                  |  not sent: tried again
 *   a ping that goes unanswered, or finds the channel gone, ends the connection: deaf again, and a full look after that
 */
import { Backoff } from './backoff.ts'
import type { Connection } from './connection.ts'
import type { Lane, Wire } from './lane.ts'

const pingTimeout = 3_000

export interface ListenerEvents {
  /** Keys that may have moved; null: anything may have. */
  hinted(keys: readonly string[] | null): void
  /** Whether the connection is ours alone, and its settings are ours by now. */
  claim(connection: Connection): Promise<boolean>
  /** What holds for this connection may hold for others. */
  listening(): Promise<void>
  /** No notification arrives here. */
  polling(): void
}

export class Listener {
  readonly channel: string
  /** Notifications so far, probes aside. */
  heard = 0
  readonly #lane: Lane
  readonly #other: Wire
  readonly #events: ListenerEvents
  readonly #pingInterval: number
  #state: 'deaf' | 'probing' | 'listening' | 'polling' = 'deaf'
  #probe: { id: string; arrived: (here: boolean) => void } | undefined
  #ping: NodeJS.Timeout | undefined
  readonly #backoff = new Backoff(20, 500)
  #retrying: NodeJS.Timeout | undefined
  #stopped = false

  /** @param other where the probe is sent from: its own connection would be told in any case */
  constructor(lane: Lane, other: Wire, channel: string, pingInterval: number, events: ListenerEvents) {
    this.#lane = lane
    this.#other = other
    this.channel = channel
    this.#pingInterval = pingInterval
    this.#events = events
  }

  get state(): 'deaf' | 'probing' | 'listening' | 'polling' {
    return this.#state
  }

  /** With each new connection of the lane. */
  async attach(connection: Connection): Promise<void> {
    this.#state = 'probing'
    connection.onNotification = payload => this.#heard(payload)
    await connection.query({ text: `listen "${this.channel}"`, values: [] }, pingTimeout)
    void this.#prove(connection)
  }

  /** The lane's connection broke. */
  detach(): void {
    this.#state = 'deaf'
    clearTimeout(this.#ping)
    this.#backoff.reset()
    this.#retry()
  }

  /** A probe that arrived at another connection than this one's. */
  heardElsewhere(payload: string): void {
    if (payload === this.#probe?.id) this.#probe.arrived(false)
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#ping)
    clearTimeout(this.#retrying)
  }

  #heard(payload: string): void {
    if (payload === this.#probe?.id) return this.#probe.arrived(true)
    if (this.#state === 'probing') return
    this.heard += 1
    this.#events.hinted(keysOf(payload))
  }

  /** Only a probe that was sent and not heard says that there is a pooler; that, too, is looked at again now and then. */
  async #prove(connection: Connection): Promise<void> {
    const backoff = new Backoff(50, 1_000)
    let found = await this.#sendProbe(connection)
    while (found === 'unsent' && connection.isOpen && !this.#stopped) {
      await backoff.wait()
      found = await this.#sendProbe(connection)
    }
    // Behind a transaction pooler it comes back here by chance: where the process that listens serves us just then.
    const isOurs = found === 'heard' && (await this.#events.claim(connection).catch(() => false))
    if (this.#stopped || !connection.isOpen) return
    this.#state = isOurs ? 'listening' : 'polling'
    if (isOurs) await this.#events.listening()
    else this.#events.polling()
    // Read again after every LISTEN: what was said before it was said to nobody.
    this.#events.hinted(null)
    this.#schedulePing(connection)
  }

  /**
   * Once the probe is committed, whatever the listening connection answers next brings the notification along; so what
   * has not come with a few answers will not come, however slow the road is.
   */
  async #sendProbe(connection: Connection): Promise<'heard' | 'missed' | 'unsent'> {
    const id = `probe ${Math.random().toString(36).slice(2)}`
    let heard: boolean | undefined
    const probe = {
      id,
      arrived: (here: boolean) => {
        heard ??= here
      },
    }
    this.#probe = probe
    try {
      await this.#other.query(
        () => ({ text: 'select pg_notify($1, $2)', values: [this.channel, id] }),
        pingTimeout,
      )
      for (let answers = 0; answers < 3 && heard === undefined; answers += 1) {
        if (answers > 0) await new Promise(resolve => setTimeout(resolve, 100).unref())
        await connection.query({ text: 'select 1', values: [] }, pingTimeout)
      }
      return heard ? 'heard' : 'missed'
    } catch {
      return heard ? 'heard' : 'unsent'
    } finally {
      // By now another connection may have taken this one's place, and wait for its own.
      if (this.#probe === probe) this.#probe = undefined
    }
  }

  #schedulePing(connection: Connection): void {
    clearTimeout(this.#ping)
    if (this.#stopped || !connection.isOpen) return
    this.#ping = setTimeout(() => void this.#check(connection), this.#pingInterval)
    this.#ping.unref()
  }

  async #check(connection: Connection): Promise<void> {
    if (this.#state === 'polling') return this.#prove(connection)
    try {
      const [row] = await connection.query(
        { text: 'select $1 = any (array(select pg_listening_channels()))', values: [this.channel] },
        pingTimeout,
      )
      if (row?.[0] !== 't') connection.destroy(new Error('the server has forgotten the channel'))
    } catch {
      // A connection that does not answer has ended itself.
    }
    this.#schedulePing(connection)
  }

  /** One timer: a connection that breaks while it is made ready is told twice, as broken and as not opened. */
  #retry(): void {
    clearTimeout(this.#retrying)
    if (this.#stopped) return
    this.#retrying = setTimeout(() => {
      if (this.#stopped || this.#lane.connection) return
      this.#lane.open(pingTimeout).catch(() => this.#retry())
    }, this.#backoff.next())
    this.#retrying.unref()
  }
}

/** What cannot be read is a hint that something happened. */
function keysOf(payload: string): readonly string[] | null {
  try {
    const keys: unknown = JSON.parse(payload)
    return Array.isArray(keys) && keys.every(key => typeof key === 'string') ? keys : null
  } catch {
    return null
  }
}
