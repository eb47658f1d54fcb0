import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { inject } from 'vitest'
import { asAdmin, withDatabase } from './admin.ts'
import { templateOf } from './template.ts'
import { twist } from './twist.ts'

export interface DatabaseOptions {
  /** Whether Fencepost's schema is in it. @default true */
  readonly migrate?: boolean
  /** @default the twist's */
  readonly schema?: string
  /** Of another server than the shared one: its superuser's URL. */
  readonly adminUrl?: string
}

/** A database of one test file's own. */
export interface TestDatabase {
  readonly name: string
  readonly schema: string
  /** Straight to the server, whatever the twist. */
  readonly url: string
  /** As the twist has the product connect; straight to a server that is not the shared one. */
  readonly twistedUrl: string
  /** A pool straight to the server; ended by `drop`. */
  pool(config?: pg.PoolConfig): pg.Pool
  /** One statement over a pool of the helper's own, for what a test looks up beside its subject. */
  query<Row extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<Row[]>
  drop(): Promise<void>
}

export async function createDatabase(options: DatabaseOptions = {}): Promise<TestDatabase> {
  const { schema = twist.schema, migrate = true } = options
  const { run, ...shared } = inject('server')
  const adminUrl = options.adminUrl ?? shared.adminUrl
  const twistedUrl = adminUrl === shared.adminUrl ? shared.twistedUrl : adminUrl
  const name = `${run}_${randomBytes(4).toString('hex')}`
  const template = migrate ? await templateOf(adminUrl, schema) : 'template0'
  await asAdmin(adminUrl, admin => admin.query(`create database ${name} template ${template}`))

  const url = withDatabase(adminUrl, name)
  const pools: pg.Pool[] = []
  const pool = (config: pg.PoolConfig = {}) => {
    const made = new pg.Pool({ connectionString: url, ...config })
    // Servers are crashed and backends ended under these pools: what an idle client says of that is no failure.
    made.on('error', () => {})
    pools.push(made)
    return made
  }
  const lookups = pool({ max: 2 })
  if (migrate) await adopt(lookups, schema)
  return {
    name,
    schema,
    url,
    twistedUrl: withDatabase(twistedUrl, name),
    pool,
    query: async (text, values) => (await lookups.query(text, values)).rows,
    drop: async () => {
      await Promise.all(pools.map(each => each.end()))
      await asAdmin(adminUrl, admin => admin.query(`drop database if exists ${name} with (force)`))
    },
  }
}

// To the product a clone is a restored copy: another incarnation, with all that follows. Tests start without one.
async function adopt(pool: pg.Pool, schema: string): Promise<void> {
  await pool.query(
    `update ${pg.escapeIdentifier(schema)}.cluster
        set database_oid = (select oid from pg_database where datname = current_database())`,
  )
}
