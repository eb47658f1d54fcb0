import type { Direction, EmbeddedMigration } from './catalog.ts'
import type { OwnConnection } from './connection.ts'
import { ledgerTable } from './ledger.ts'
import { MigrationError } from './migration-error.ts'

const silent = { info() {}, warn() {}, error() {} }

/**
 * Has node-pg-migrate apply or revert these migrations, in this order, inside the transaction that is open.
 *
 * Its runner would read them from a folder, which a bundled program does not have, and breaks on schema names with
 * quotes in them; so its migrations are run one by one. They come from a subpath, and only when there is something to
 * run: the main entry loads a compiler of TypeScript, which bundlers cannot take along into an ESM bundle.
 */
export async function runMigrations(
  db: OwnConnection,
  schema: string,
  direction: Direction,
  steps: readonly EmbeddedMigration[],
  log: (line: string) => void,
): Promise<void> {
  if (steps.length === 0) return
  const { Migration } = await import('node-pg-migrate/migration')
  type Arguments = ConstructorParameters<typeof Migration>
  const options = {
    direction,
    singleTransaction: true, // ours: it then neither begins nor commits
    schema: schema.replaceAll('"', '""'), // it puts quotes around it and no more
    migrationsTable: ledgerTable,
  }
  for (const { name, up, down } of steps) {
    const actions: Arguments[2] = { up: pgm => pgm.sql(up), down: pgm => pgm.sql(down) }
    const migration = new Migration(
      db as unknown as Arguments[0],
      name,
      actions,
      options as Arguments[3],
      {},
      silent,
    )
    const verb = direction === 'up' ? 'apply' : 'revert'
    log(`${verb} ${name}`)
    try {
      await migration.apply(direction)
    } catch (cause) {
      throw new MigrationError(`cannot ${verb} ${name}`, cause)
    }
  }
}
