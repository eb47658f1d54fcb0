import { Attempts } from './attempts.ts'
import type { Connection } from './connection.ts'
import { FallbackWire, Lane, type Wire } from './lane.ts'
import { Listener } from './listener.ts'
import type { PoolLike, Queryable } from './ports.ts'
import { connector, isPool, QueryWire } from './target.ts'

/** Whether to be woken, and where: by the way that everything goes, not at all, or by a direct connection. */
export type Listen = boolean | { readonly connectionString: string }

export interface RoadsOptions {
  readonly database: PoolLike | Queryable | string
  readonly schema: string
  readonly listen: Listen
  readonly channel: string
  /** Milliseconds. */
  readonly callTimeout: number
  /** Milliseconds: of what is held. */
  readonly ttl: number
  hinted(keys: readonly string[] | null): void
  polling(): void
  /** The schema's operator has said that the server replicates synchronously, and it waits for nobody. */
  unreplicated(): void
}

const pingInterval = 5_000
/** Milliseconds without a contended key after which their connection is ended. */
const contendedFor = 10_000

/**
 * How a client reaches its database: *beat* for heartbeats and notifications, *ask* for what it wants, *giveBack* for
 * what it gives up, *contended* for both where others want it as well. Opened when first used; the last is ended when idle.
 */
export class Roads {
  readonly beat: Wire
  readonly ask: Wire
  readonly giveBack: Wire
  readonly contended: Wire
  readonly #lanes: Lane[] = []
  /** Connections that are somebody's alone. */
  readonly #apart = new Set<Connection>()
  readonly #listenAt: PoolLike | string | undefined
  readonly #listener: Listener | undefined
  readonly #options: RoadsOptions
  readonly #attempts: Attempts
  #isClosed = false

  constructor(options: RoadsOptions) {
    this.#options = options
    this.#attempts = new Attempts(options.ttl)
    const { database, listen } = options
    const ofOurs = typeof database === 'string' || isPool(database)
    this.ask = ofOurs
      ? this.#lane('ask', database)
      : new QueryWire(database, options.schema, options.unreplicated)
    this.giveBack = ofOurs ? this.#lane('return', database) : this.ask
    this.contended = ofOurs
      ? new FallbackWire(this.#lane('contended', database, contendedFor), this.ask)
      : this.ask
    const others = [...this.#lanes]
    const listenAt = typeof listen === 'object' ? listen.connectionString : ofOurs ? database : undefined
    this.#listenAt = listenAt
    if (listenAt === undefined) {
      this.beat = this.ask
      return
    }
    const beat = this.#lane('beat', listenAt)
    this.beat = new FallbackWire(beat, this.giveBack)
    if (listen !== false) this.#listener = this.#listen(beat, others)
  }

  /** Where the next holder is told; undefined: nowhere, we look by ourselves. */
  get channel(): string | undefined {
    return this.#listener && this.#listener.state !== 'polling' ? this.#options.channel : undefined
  }

  get isListening(): boolean {
    return this.#listener?.state === 'listening'
  }

  /** How the client is woken. */
  get waking(): 'listening' | 'polling' | 'connecting' {
    const state = this.#listener?.state ?? 'polling'
    return state === 'listening' || state === 'polling' ? state : 'connecting'
  }

  /** Connections that are open. */
  get connections(): number {
    return this.#lanes.filter(lane => lane.isOpen).length + this.#apart.size
  }

  /** Notifications received so far. */
  get heard(): number {
    return this.#listener?.heard ?? 0
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#listener?.stop()
    await Promise.all([...this.#lanes.map(lane => lane.close()), ...[...this.#apart].map(one => one.end())])
  }

  /**
   * A connection that is the caller's alone, where notifications go and straight to the server, with our settings; undefined:
   * it is not known to be straight. The caller ends it.
   *
   * @throws BrokenConnection, NotMigratedError, ServerTooOldError
   */
  async direct(name: string, timeout: number, signal: AbortSignal): Promise<Connection | undefined> {
    if (this.#listenAt === undefined || !this.isListening) return undefined
    const connect = connector(this.#listenAt, `fencepost ${name}`, this.#options.schema)
    const connection = await connect(timeout, signal)
    this.#apart.add(connection)
    connection.onClose = () => this.#apart.delete(connection)
    try {
      if ((await connection.claim(timeout)) && !this.#isClosed && !signal.aborted) return connection
      await connection.end()
      return undefined
    } catch (error) {
      connection.destroy(error)
      throw error
    }
  }

  #lane(name: string, from: PoolLike | string, idleFor?: number): Lane {
    const { database, schema, ttl, unreplicated } = this.#options
    const connect = connector(from, `fencepost ${name}`, schema, unreplicated)
    const lane = new Lane(connect, idleFor, from === database ? this.#attempts : new Attempts(ttl))
    this.#lanes.push(lane)
    return lane
  }

  #listen(beat: Lane, others: readonly Lane[]): Listener {
    const { channel, callTimeout, hinted, polling } = this.#options
    // What a probe proves of one connection holds for the others where all go the same way.
    const sameWay = this.#options.listen === true
    const listener = new Listener(beat, this.giveBack, channel, pingInterval, {
      hinted,
      polling,
      claim: connection => connection.claim(callTimeout),
      listening: async () => {
        // A lane whose claim fails has ended its connection, and the next one claims when it is opened.
        if (sameWay) for (const lane of others) await lane.connection?.claim(callTimeout).catch(() => {})
      },
    })
    beat.onOpen = connection => listener.attach(connection)
    beat.onBroken = () => listener.detach()
    for (const lane of others) {
      lane.onOpen = async connection => {
        connection.onNotification = payload => listener.heardElsewhere(payload)
        if (sameWay && listener.state === 'listening') await connection.claim(callTimeout)
        if (listener.state === 'deaf' && !this.#isClosed) beat.open(callTimeout).catch(() => {})
      }
    }
    return listener
  }
}
