import { migrations } from './catalog.ts'
import type { OwnConnection } from './connection.ts'
import { quoteIdentifier } from './quote.ts'

// node-pg-migrate's own table, so that its command can read it and go on from it.
export const ledgerTable = 'migrations'

/**
 * Makes the table of applied migrations say what `cluster.version` says, which is the truth: another tool may have
 * applied some, or reverted them. Returns the names that were missing. Names that this package does not know stay.
 */
export async function alignLedger(db: OwnConnection, schema: string, version: number): Promise<string[]> {
  const table = `${quoteIdentifier(schema)}.${ledgerTable}`
  const names = migrations.map(({ name }) => name)
  await db.query(
    `create table if not exists ${table} (id serial primary key, name varchar(255) not null, run_on timestamp not null)`,
  )
  await db.query(`delete from ${table} where name = any($1)`, [names.slice(version)])
  const { rows } = await db.query<{ name: string }>(
    `insert into ${table} (name, run_on)
     select name, now() from unnest($1::text[]) with ordinality as done(name, place)
      where not exists (select from ${table} known where known.name = done.name) order by place
     returning name`,
    [names.slice(0, version)],
  )
  return rows.map(({ name }) => name)
}
