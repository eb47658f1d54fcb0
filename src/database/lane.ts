import { FencepostError } from '../errors.ts'
import { Attempts } from './attempts.ts'
import type { Connection, Row, Statement } from './connection.ts'
import { withDeadline } from './deadline.ts'
import { BrokenConnection } from './failure.ts'

/** Milliseconds. */
const closePatience = 1_000
const reopenAfter = 1_000

/** Opens a connection, unless the signal is aborted before. @throws BrokenConnection, NotMigratedError, ServerTooOldError */
export type Connect = (timeout: number, signal: AbortSignal) => Promise<Connection>

/** Something that runs statements, and knows whether its connection's settings are ours. */
export interface Wire {
  readonly direct: boolean
  /** A statement can be sent without a connection being opened first. */
  readonly isOpen: boolean
  query(statement: (direct: boolean) => Statement, timeout: number): Promise<Row[]>
}

/**
 * A connection that is opened when it is first needed and again after it broke. It retries nothing: who asks knows
 * what an unknown outcome means, and how long it is worth trying.
 */
export class Lane implements Wire {
  /** Called with each new connection, before anything else uses it. */
  onOpen: (connection: Connection) => Promise<void> | void = () => {}
  onBroken: (cause: unknown) => void = () => {}
  #connection: Connection | undefined
  #opening: Promise<Connection> | undefined
  #closed = false
  readonly #ending = new AbortController()

  #inUse = 0
  #usedAt = 0
  #idleTimer: NodeJS.Timeout | undefined

  private readonly connect: Connect
  readonly #idleFor: number | undefined
  readonly #attempts: Attempts

  /**
   * @param idleFor milliseconds after its last use at which the connection is ended; undefined: never
   * @param attempts shared by all who connect to the same address
   */
  constructor(connect: Connect, idleFor?: number, attempts: Attempts = new Attempts()) {
    this.connect = connect
    this.#idleFor = idleFor
    this.#attempts = attempts
  }

  get direct(): boolean {
    return this.#connection?.direct ?? false
  }

  get isOpen(): boolean {
    return this.#connection !== undefined
  }

  get connection(): Connection | undefined {
    return this.#connection
  }

  /** All of it within the timeout, also where somebody else has begun to open the connection. */
  async query(statement: (direct: boolean) => Statement, timeout: number): Promise<Row[]> {
    const until = performance.now() + timeout
    const connection = this.#connection ?? (await this.#opened(timeout))
    if (this.#idleFor === undefined)
      return await connection.query(statement(connection.direct), Math.max(until - performance.now(), 1))
    this.#inUse += 1
    try {
      return await connection.query(statement(connection.direct), Math.max(until - performance.now(), 1))
    } finally {
      this.#inUse -= 1
      this.#usedAt = performance.now()
    }
  }

  open(timeout: number): Promise<Connection> {
    this.#opening ??= this.#open(timeout).finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  async #opened(timeout: number): Promise<Connection> {
    const opening = this.open(timeout)
    try {
      return await withDeadline(opening, timeout)
    } catch (error) {
      throw error instanceof BrokenConnection || error instanceof FencepostError
        ? error
        : new BrokenConnection(false, error)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    // What is being opened ends itself when it comes to that; a server that says nothing is not waited for.
    if (this.#opening !== undefined) await withDeadline(this.#opening, closePatience).catch(() => {})
    this.#ending.abort()
    clearTimeout(this.#idleTimer)
    await this.#connection?.end()
  }

  #endWhenIdle(connection: Connection, idleFor: number): void {
    this.#usedAt = performance.now()
    const look = () => {
      if (this.#connection !== connection) return
      const left = this.#inUse > 0 ? idleFor : this.#usedAt + idleFor - performance.now()
      if (left > 0) {
        this.#idleTimer = setTimeout(look, Math.ceil(left)).unref()
        return
      }
      this.#connection = undefined
      connection.end().catch(() => {})
    }
    look()
  }

  async #open(timeout: number): Promise<Connection> {
    if (this.#closed) throw new BrokenConnection(false, new Error('the client is closed'))
    if (this.#connection) return this.#connection
    const connection = await this.#attempt(timeout)
    const openedAt = performance.now()
    if (this.#closed) {
      connection.destroy(new Error('the client is closed'))
      throw new BrokenConnection(false, new Error('the client is closed'))
    }
    this.#connection = connection
    connection.onClose = cause => {
      if (this.#connection === connection && !this.#closed) this.#attempts.broke(openedAt, cause)
      if (this.#connection === connection) this.#connection = undefined
      this.onBroken(cause)
    }
    await this.onOpen(connection)
    if (this.#closed) connection.destroy(new Error('the client is closed'))
    else if (this.#idleFor !== undefined) this.#endWhenIdle(connection, this.#idleFor)
    return connection
  }

  /** A server that answers, though it is not one to work with, is no failure to connect. */
  async #attempt(timeout: number): Promise<Connection> {
    const until = performance.now() + timeout
    await this.#attempts.turn(timeout)
    if (this.#closed) throw new BrokenConnection(false, new Error('the client is closed'))
    try {
      const connection = await this.connect(Math.max(until - performance.now(), 1), this.#ending.signal)
      this.#attempts.succeeded()
      return connection
    } catch (error) {
      if (error instanceof BrokenConnection) this.#attempts.failed(error)
      throw error
    }
  }
}

/** A lane, and another wire while it has no connection: better a heartbeat by the wrong lane than none. */
export class FallbackWire implements Wire {
  readonly #lane: Lane
  readonly #other: Wire
  /** By the monotonic clock: a server without a connection to spare is not asked for one with each call. */
  #openAt = 0

  constructor(lane: Lane, other: Wire) {
    this.#lane = lane
    this.#other = other
  }

  get direct(): boolean {
    return this.#lane.direct
  }

  get isOpen(): boolean {
    return this.#lane.isOpen || this.#other.isOpen
  }

  async query(statement: (direct: boolean) => Statement, timeout: number): Promise<Row[]> {
    if (!this.#lane.isOpen && this.#other.isOpen) {
      if (performance.now() >= this.#openAt) {
        this.#lane.open(timeout).catch(() => {
          this.#openAt = performance.now() + reopenAfter * (1 + Math.random())
        })
      }
      return await this.#other.query(statement, timeout)
    }
    try {
      return await this.#lane.query(statement, this.#lane.isOpen ? timeout : timeout / 2)
    } catch (error) {
      if (error instanceof BrokenConnection && error.sent) throw error
      return await this.#other.query(statement, timeout / 2)
    }
  }
}

/** A connection as a wire. */
export const wireOf = (connection: Connection): Wire => ({
  direct: connection.direct,
  isOpen: connection.isOpen,
  query: (statement, timeout) => connection.query(statement(connection.direct), timeout),
})
