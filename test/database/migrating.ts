import pg from 'pg'
import { type MigrateOptions, type MigrateResult, migrate } from '../../src/database/migrate.ts'
import { type MigrationStatus, migrationStatus } from '../../src/database/migration-status.ts'
import { migrations } from '../../src/database/migrations/catalog.ts'
import type { TestDatabase } from '../support/database.ts'

/** Of all migrations, in order. */
export const names: readonly string[] = migrations.map(({ name }) => name)

/** Migrates the test's database as the twist connects. */
export function run(db: TestDatabase, options: Partial<MigrateOptions> = {}): Promise<MigrateResult> {
  return migrate({ connection: db.twistedUrl, schema: db.schema, ...options })
}

export function status(db: TestDatabase, schema: string = db.schema): Promise<MigrationStatus> {
  return migrationStatus({ connection: db.twistedUrl, schema })
}

/** The names in node-pg-migrate's table, in its order. */
export async function ledger(db: TestDatabase, schema: string = db.schema): Promise<string[]> {
  const table = `${pg.escapeIdentifier(schema)}.migrations`
  const rows = await db.query<{ name: string }>(`select name from ${table} order by run_on, id`)
  return rows.map(({ name }) => name)
}
