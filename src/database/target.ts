import pg from 'pg'
import { BadOptionError } from '../errors.ts'
import { isWellFormed } from '../options.ts'
import { checkServer } from './check.ts'
import { Connection, type Row, type Statement } from './connection.ts'
import { BrokenConnection, endsConnection } from './failure.ts'
import type { Connect, Wire } from './lane.ts'
import type { ClientConstructor, PoolLike, Queryable } from './ports.ts'

/** Read one by one: some of them, `password` and `ssl.key` above all, are not enumerable. */
const connectionOptions = [
  'connectionString',
  'user',
  'password',
  'host',
  'port',
  'database',
  'ssl',
  'client_encoding',
  'options',
  'stream',
]

/**
 * How a connection of our own is made from what the user has: a pool's options, or a connection string.
 *
 * @param unreplicated see {@link checkServer}
 */
export function connector(
  from: PoolLike | string,
  applicationName: string,
  schema: string,
  unreplicated?: () => void,
): Connect {
  const config: Record<string, unknown> = { application_name: applicationName }
  let Client = pg.Client as unknown as ClientConstructor
  if (typeof from === 'string') config.connectionString = from
  else {
    const options = from.options as Record<string, unknown>
    for (const name of connectionOptions) if (options[name] !== undefined) config[name] = options[name]
    // The pool's own class of client: the application may run another copy of the driver, or a subclass.
    const theirs =
      (from as { Client?: ClientConstructor }).Client ?? (options.Client as ClientConstructor | undefined)
    if (typeof theirs === 'function') Client = theirs
  }
  return (timeout, signal) => Connection.open(Client, config, schema, timeout, signal, unreplicated)
}

/** What the application calls itself to the server, so that people find it again. @throws BadOptionError */
export function applicationName(database: PoolLike | Queryable | string): string | undefined {
  const options = isPool(database) ? (database.options as Record<string, unknown>) : {}
  const url = typeof database === 'string' ? database : options.connectionString
  const named = options.application_name ?? applicationNameIn(url) ?? process.env.PGAPPNAME
  if (typeof named !== 'string' || named === '') return undefined
  if (!named.includes('\0') && isWellFormed(named)) return named
  throw new BadOptionError('application_name: want Unicode without NUL')
}

function applicationNameIn(url: unknown): string | null {
  if (typeof url !== 'string' || !url.includes('?')) return null
  return new URLSearchParams(url.slice(url.indexOf('?'))).get('application_name')
}

/** Where only a `query` function is to be had: no connection of ours, no listening, each call through `invoke`. */
export class QueryWire implements Wire {
  readonly direct = false
  readonly isOpen = true
  readonly #database: Queryable
  readonly #schema: string
  readonly #unreplicated: () => void
  #isChecked = false

  /** @param unreplicated see {@link checkServer} */
  constructor(database: Queryable, schema: string, unreplicated: () => void) {
    this.#database = database
    this.#schema = schema
    this.#unreplicated = unreplicated
  }

  async query(statement: (direct: boolean) => Statement): Promise<Row[]> {
    if (!this.#isChecked) {
      await checkServer(one => this.#run(one), this.#schema, this.#unreplicated)
      this.#isChecked = true
    }
    try {
      return await this.#run(statement(false))
    } catch (error) {
      // It may be another server the next time, or another schema.
      this.#isChecked = false
      throw error
    }
  }

  async #run({ text, values }: Statement): Promise<Row[]> {
    try {
      const { rows } = await this.#database.query(text, [...values])
      return rows.map(asRow)
    } catch (error) {
      throw endsConnection(error) ? new BrokenConnection(true, error) : error
    }
  }
}

/** A row as an array of texts, whether the driver gives objects or arrays, and JSON parsed or not. */
function asRow(row: unknown): Row {
  const values = Array.isArray(row) ? row : Object.values(row as object)
  return values.map(value => (value === null || typeof value === 'string' ? value : JSON.stringify(value)))
}

export function isPool(value: unknown): value is PoolLike {
  return typeof (value as PoolLike | null)?.options === 'object'
}

export function checkDatabase(value: unknown): PoolLike | Queryable | string {
  if (typeof value === 'string' && value !== '') return value
  if (isPool(value)) return value
  if (typeof (value as Queryable | null)?.query === 'function') return value as Queryable
  throw new BadOptionError('pool: want a pg.Pool, a connection string, or an object with query(text, values)')
}
