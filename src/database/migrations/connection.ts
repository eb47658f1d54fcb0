import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { BadOptionError, OutOfConnectionsError, UnreachableError } from '../../errors.ts'
import { messageOf } from '../failure.ts'
import { MigrationError } from './migration-error.ts'

/** What `pg.Client` takes; a pool's `options` will do. Only some of its members are named here. */
export interface ConnectionOptions {
  readonly connectionString?: string | undefined
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly database?: string | undefined
  readonly user?: string | undefined
  readonly password?: unknown
  readonly ssl?: unknown
}

/** A connection that this call opened and nobody else uses. */
export interface OwnConnection {
  query<Row>(text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }>
}

// The longest that a timer can be set to: a `query_timeout` of the pool's would cut a migration off.
const unlimited = 2 ** 31 - 1
const connectTimeout = 10_000
const farewell = 1_000

const tooManyConnections = '53300'

// The server says that it ends the connection: admin_shutdown, crash_shutdown.
const ending = new Set(['57P01', '57P02'])

/**
 * Opens a connection, runs `work` on it and ends it, however `work` ends.
 *
 * @throws UnreachableError when there is no connection to be had, or it is lost; OutOfConnectionsError is one.
 * @throws MigrationError for what the server refuses and `work` does not catch.
 * @throws BadOptionError when the connection string cannot be read.
 */
export async function withOwnConnection<T>(
  to: string | ConnectionOptions,
  work: (db: OwnConnection) => Promise<T>,
): Promise<T> {
  const client = newClient(to)
  let lost = false
  client.on('error', () => {
    lost = true // before the query that was under way fails
  })
  try {
    await client.connect()
  } catch (cause) {
    const Unreachable = codeOf(cause) === tooManyConnections ? OutOfConnectionsError : UnreachableError
    throw new Unreachable(`cannot connect to the database: ${messageOf(cause)}`, { cause })
  }
  const db: OwnConnection = {
    async query<Row>(text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }> {
      const query = { text, values: values as unknown[], query_timeout: unlimited }
      return (await client.query(query)) as { rows: unknown[] } as { rows: Row[] }
    },
  }
  try {
    return await work(db)
  } catch (error) {
    const cause = error instanceof MigrationError ? error.cause : error
    if (lost || ending.has(codeOf(cause) ?? '')) {
      throw new UnreachableError(`lost the connection to the database: ${messageOf(cause)}`, { cause })
    }
    throw error instanceof pg.DatabaseError ? new MigrationError('the server refuses', error) : error
  } finally {
    await end(client)
  }
}

function newClient(to: string | ConnectionOptions): pg.Client {
  const config: pg.ClientConfig = typeof to === 'string' ? { connectionString: to } : copyOf(to)
  config.connectionTimeoutMillis ||= connectTimeout
  config.keepAlive ??= true
  try {
    return new pg.Client(config)
  } catch (cause) {
    throw new BadOptionError(`connection: ${messageOf(cause)}`, { cause })
  }
}

// A server that hangs does not answer the farewell either.
async function end(client: pg.Client): Promise<void> {
  await Promise.race([client.end().catch(() => {}), pause(farewell, undefined, { ref: false })])
  ;(client as { connection?: { stream?: { destroy(): void } } }).connection?.stream?.destroy()
}

// By descriptors, because the password of a pool's options is not enumerable.
function copyOf(options: ConnectionOptions): pg.ClientConfig {
  return Object.create(Object.getPrototypeOf(options), Object.getOwnPropertyDescriptors(options))
}

/** The five characters of an SQLSTATE, or the code of a failing socket. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}
