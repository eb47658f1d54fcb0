import type { Connection, Row, Statement } from './connection.ts'
import { BrokenConnection } from './failure.ts'

/** Opens a connection. @throws BrokenConnection, or the server's error */
export type Connect = (timeout: number) => Promise<Connection>

/** Something that runs statements, and knows whether its connection's settings are ours. */
export interface Wire {
  readonly direct: boolean
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

  private readonly connect: Connect

  constructor(connect: Connect) {
    this.connect = connect
  }

  get direct(): boolean {
    return this.#connection?.direct ?? false
  }

  get connection(): Connection | undefined {
    return this.#connection
  }

  async query(statement: (direct: boolean) => Statement, timeout: number): Promise<Row[]> {
    const connection = this.#connection ?? (await this.open(timeout))
    return await connection.query(statement(connection.direct), timeout)
  }

  open(timeout: number): Promise<Connection> {
    this.#opening ??= this.#open(timeout).finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#opening?.catch(() => {})
    await this.#connection?.end()
  }

  async #open(timeout: number): Promise<Connection> {
    if (this.#closed) throw new BrokenConnection(false, new Error('the client is closed'))
    if (this.#connection) return this.#connection
    const connection = await this.connect(timeout)
    if (this.#closed) {
      connection.destroy(new Error('the client is closed'))
      throw new BrokenConnection(false, new Error('the client is closed'))
    }
    this.#connection = connection
    connection.onClose = cause => {
      if (this.#connection === connection) this.#connection = undefined
      this.onBroken(cause)
    }
    await this.onOpen(connection)
    return connection
  }
}

/** One wire, and another for what the first could not even send: better a heartbeat by the wrong lane than none. */
export class FallbackWire implements Wire {
  readonly #first: Wire
  readonly #second: Wire

  constructor(first: Wire, second: Wire) {
    this.#first = first
    this.#second = second
  }

  get direct(): boolean {
    return this.#first.direct
  }

  async query(statement: (direct: boolean) => Statement, timeout: number): Promise<Row[]> {
    try {
      return await this.#first.query(statement, timeout)
    } catch (error) {
      if (error instanceof BrokenConnection && error.sent) throw error
      return await this.#second.query(statement, timeout)
    }
  }
}
