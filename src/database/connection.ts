import { FencepostError } from '../errors.ts'
import { checkServer } from './check.ts'
import { noAnswer, withDeadline } from './deadline.ts'
import { BrokenConnection, endsConnection } from './failure.ts'
import type { ClientConstructor, ClientLike, RowsResult } from './ports.ts'

/** A statement as the driver gets it. `name` prepares it once for each connection. */
export interface Statement {
  readonly text: string
  readonly values: readonly unknown[]
  readonly name?: string
}

export type Row = readonly (string | null)[]

/** Values come as the text that the server sent, whatever parsers the application has installed. */
const asText = { getTypeParser: () => (value: string) => value }

/** What a session of ours sets once, where the connection is ours alone: hostile defaults do no harm then. */
const settings = [
  ['default_transaction_isolation', 'read committed'],
  ['synchronous_commit', 'on'],
  ['statement_timeout', '0'],
  ['lock_timeout', '0'],
  ['idle_in_transaction_session_timeout', '0'],
  ['idle_session_timeout', '0'],
  ['transaction_timeout', '0'],
]

/** One connection of our own. Any failure of it ends it: there is no half-broken connection. */
export class Connection {
  /** Its settings are ours: nothing between us and the server gives it to others between transactions. */
  direct = false
  onNotification: (payload: string) => void = () => {}
  onClose: (cause: unknown) => void = () => {}
  #cause: unknown
  #isOpen = true
  #warned = false
  #isBusy = false
  readonly #waiting: (() => void)[] = []
  /** How to fail the queries that are in flight. Not a shared promise: each race on it would stay in memory. */
  readonly #inFlight = new Set<(cause: unknown) => void>()

  private readonly client: ClientLike

  private constructor(client: ClientLike) {
    this.client = client
    client.on('error', (error: unknown) => this.destroy(error))
    client.on('end', () => this.destroy(new Error('the server ended the connection')))
    client.on('notification', (message: { payload?: string }) => this.onNotification(message.payload ?? ''))
    // "Canceling wait for synchronous replication" comes as a warning beside a success: not known to be replicated.
    client.on('notice', (notice: { code?: string }) => {
      if (notice.code === '01000' && this.#inFlight.size > 0) this.#warned = true
    })
  }

  /**
   * @param unreplicated see {@link checkServer}
   * @throws BrokenConnection, whose cause says why; NotMigratedError, ServerTooOldError
   */
  static async open(
    Client: ClientConstructor,
    config: object,
    schema: string,
    timeout: number,
    signal?: AbortSignal,
    unreplicated?: () => void,
  ): Promise<Connection> {
    const client = new Client({
      ...config,
      types: asText,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      connectionTimeoutMillis: timeout,
    })
    const connection = new Connection(client)
    // A socket that is still connecting keeps the process alive.
    const stop = () => connection.destroy(signal?.reason)
    signal?.addEventListener('abort', stop, { once: true })
    try {
      // The driver's own timeout does not cover a server that accepts and then says nothing.
      await withDeadline(connection.#connect(schema, timeout, unreplicated), timeout)
      return connection
    } catch (error) {
      connection.destroy(error)
      if (error instanceof FencepostError) throw error
      throw new BrokenConnection(false, error instanceof BrokenConnection ? error.cause : error)
    } finally {
      signal?.removeEventListener('abort', stop)
    }
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** One at a time, in order. @throws BrokenConnection when it broke, or the server's error */
  async query(statement: Statement, timeout: number): Promise<Row[]> {
    const until = performance.now() + timeout
    if (this.#isBusy) await this.#turn(timeout)
    this.#isBusy = true
    try {
      return await this.#query(statement, Math.max(until - performance.now(), 1))
    } finally {
      // Handed on, not let go: who comes just now must not get in between.
      const next = this.#waiting.shift()
      if (next) next()
      else this.#isBusy = false
    }
  }

  /**
   * Makes the settings of the server's process ours, if it is ours alone: false, and nothing is set, where another process
   * answers than the one that greeted us. A pooler greets by itself, with a number that is no process's.
   */
  async claim(timeout: number): Promise<boolean> {
    if (this.direct) return true
    const names = settings.map(([name]) => name)
    const values = settings.map(([, value]) => value)
    const set = await this.query(
      {
        text: `select set_config(s.name, w.value, false) from pg_settings s
                 join unnest($1::text[], $2::text[]) w(name, value) on w.name = s.name
                where pg_backend_pid() = $3`,
        values: [names, values, this.client.processID ?? null],
      },
      timeout,
    )
    this.direct = set.length > 0
    return this.direct
  }

  /** Whether the server's process that answers is still the one that greeted us. */
  async isOurs(timeout: number): Promise<boolean> {
    const [row] = await this.query(
      {
        text: 'select pg_backend_pid() = $1::int',
        values: [this.client.processID ?? null],
        name: 'fencepost_ping',
      },
      timeout,
    )
    return row?.[0] === 't'
  }

  /** Ends it at once, without a word to the server: a half-open socket would keep the process alive. */
  destroy(cause: unknown): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#cause = cause
    for (const fail of [...this.#inFlight]) fail(cause)
    this.onClose(cause)
    const stream = (this.client as { connection?: { stream?: { destroy?: () => void } } }).connection?.stream
    if (stream?.destroy) stream.destroy()
    else this.client.end().catch(() => {})
  }

  /** Ends it in good order. */
  async end(): Promise<void> {
    if (!this.#isOpen) return
    try {
      await withDeadline(this.client.end(), 1_000)
    } catch {
      // It is destroyed either way.
    }
    this.destroy(new Error('the client was closed'))
  }

  /** Resolves when the connection is the caller's. What has waited in vain was not sent. */
  #turn(timeout: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const go = (): void => {
        clearTimeout(timer)
        resolve()
      }
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(go), 1)
        reject(new BrokenConnection(false, noAnswer(timeout)))
      }, timeout)
      timer.unref()
      this.#waiting.push(go)
    })
  }

  async #query(statement: Statement, timeout: number): Promise<Row[]> {
    if (!this.#isOpen) throw new BrokenConnection(false, this.#cause)
    this.#warned = false
    const { name } = statement
    const config = {
      text: statement.text,
      values: statement.values,
      rowMode: 'array',
      ...(name !== undefined && this.direct ? { name } : {}),
    }
    try {
      const result = await this.#answer(this.client.query(config), timeout)
      if (this.#warned) throw new Error('the server warned that it did not wait for replication')
      return result.rows as Row[]
    } catch (error) {
      if (!endsConnection(error)) throw error
      this.destroy(error)
      throw new BrokenConnection(true, error)
    }
  }

  #answer(answer: Promise<RowsResult>, timeout: number): Promise<RowsResult> {
    return new Promise((resolve, reject) => {
      const fail = (cause: unknown): void => {
        this.#inFlight.delete(fail)
        clearTimeout(timer)
        reject(cause)
      }
      const timer = setTimeout(() => fail(noAnswer(timeout)), timeout)
      timer.unref()
      this.#inFlight.add(fail)
      answer.then(result => {
        this.#inFlight.delete(fail)
        clearTimeout(timer)
        resolve(result)
      }, fail)
    })
  }

  async #connect(schema: string, timeout: number, unreplicated?: () => void): Promise<void> {
    await this.client.connect()
    this.client.unref?.()
    await checkServer(statement => this.query(statement, timeout), schema, unreplicated)
  }
}
