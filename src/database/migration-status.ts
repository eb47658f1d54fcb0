import { type Duration, milliseconds } from '../options.ts'
import { latestVersion, migrations } from './migrations/catalog.ts'
import { type ConnectionOptions, withOwnConnection } from './migrations/connection.ts'
import { findDrift } from './migrations/drift.ts'
import { manifest } from './migrations/embedded.ts'
import { checkSchema, defaultSchema } from './migrations/schema-name.ts'
import { readShape } from './migrations/shape.ts'
import { whileStarting } from './migrations/starting.ts'
import { readState } from './migrations/state.ts'
import { checkServer, inTransaction } from './migrations/transaction.ts'

export interface MigrationStatusOptions {
  /** A connection string, or what `pg.Client` takes: the `options` of a pool will do. */
  readonly connection: string | ConnectionOptions
  /** @default 'fencepost' */
  readonly schema?: string
  /** How long a database that does not answer yet is tried again. @default 0 */
  readonly wait?: Duration
  /** Told what happens, one line at a time. @default nothing */
  readonly log?: (line: string) => void
}

export interface MigrationStatus {
  /** The version of the schema; 0 when nothing has been applied. */
  readonly version: number
  /** The version that this package brings. */
  readonly latest: number
  /** The names of the migrations still to be applied, in order. */
  readonly pending: readonly string[]
  /**
   * What differs from the schema as it was shipped, one line each, such as `missing: index waiters.by_key`. Empty
   * while the versions differ: the package knows only its own version's schema.
   */
  readonly drift: readonly string[]
  /** Whether the clients of this package work with this schema: it is as new as they are, and admits them. */
  readonly compatible: boolean
}

/**
 * Compares a schema with what this package brings. Changes nothing, and works on a standby. The role must be able to
 * read the table `cluster`, as the schema's owner is.
 *
 * @throws UnreachableError, ServerTooOldError, BadOptionError
 */
export async function migrationStatus(options: MigrationStatusOptions): Promise<MigrationStatus> {
  const { connection, log = () => {} } = options
  const wait = milliseconds('wait', options.wait ?? 0, 0, Number.POSITIVE_INFINITY)
  const schema = checkSchema(options.schema ?? defaultSchema)
  return await whileStarting(wait, log, () =>
    withOwnConnection(connection, db =>
      inTransaction(db, async () => {
        await checkServer(db)
        const { version, compatibleFrom } = await readState(db, schema)
        return {
          version,
          latest: latestVersion,
          pending: migrations.slice(version).map(({ name }) => name),
          drift: version === latestVersion ? findDrift(await readShape(db, schema), manifest) : [],
          compatible: version >= latestVersion && compatibleFrom <= latestVersion,
        }
      }),
    ),
  )
}
