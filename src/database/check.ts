import { NotMigratedError, ServerTooOldError } from '../errors.ts'
import type { Row, Statement } from './connection.ts'
import { quoteIdentifier } from './migrations/quote.ts'

/** The schema's version that this client was written against, and the oldest that it still understands. */
const clientVersion = 10
const oldestVersion = 10
const oldestServer = 140_000

/**
 * Whether this is a server to work with, and a schema that we understand.
 *
 * @param unreplicated called where the schema's operator has said that the server replicates synchronously, and it waits for nobody
 * @throws ServerTooOldError, NotMigratedError, the error of a standby (25006), and what the query throws
 */
export async function checkServer(
  query: (statement: Statement) => Promise<Row[]>,
  schema: string,
  unreplicated: () => void = () => {},
): Promise<void> {
  const [server] = await query({
    text: `select current_setting('server_version_num') as version, pg_is_in_recovery()::text as standby,
                  current_setting('synchronous_standby_names') as standbys`,
    values: [],
  })
  if (Number(server?.[0]) < oldestServer) {
    throw new ServerTooOldError(`the server is too old (${server?.[0]}): Fencepost needs PostgreSQL 14`)
  }
  if (server?.[1] === 'true') throw standbyError()
  const [found] = await query({
    text: `select v.version, v.compatible_from, to_jsonb(v)->>'replication' as replication
             from ${quoteIdentifier(schema)}.schema_version() v`,
    values: [],
  })
  const [version, compatibleFrom] = [Number(found?.[0] ?? 0), Number(found?.[1] ?? 0)]
  if (version >= oldestVersion && compatibleFrom <= clientVersion) {
    // A schema from before this column says nothing of it.
    if (found?.[2] === 'synchronous' && server?.[2] === '') unreplicated()
    return
  }
  throw new NotMigratedError(
    `schema "${schema}" has version ${version}, this client knows ${oldestVersion} to ${clientVersion}: ` +
      (compatibleFrom > clientVersion ? 'update the package "fencepost"' : 'run "fencepost migrate"'),
  )
}

/** As the server itself says it where something is to be written. */
export function standbyError(): Error {
  return Object.assign(new Error('this server is a standby'), { code: '25006', severity: 'ERROR' })
}
