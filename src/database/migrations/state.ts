import type { OwnConnection } from './connection.ts'
import { quoteIdentifier } from './quote.ts'

/** What a schema says of itself. A schema that is missing or empty is at version 0. */
export interface SchemaState {
  readonly exists: boolean
  /** The number of the last migration applied, by whatever tool. */
  readonly version: number
  /** The oldest version whose clients still work with this schema. */
  readonly compatibleFrom: number
}

const presence = `
  select to_regnamespace($1) is not null as exists, to_regclass($1 || '.cluster') is not null as migrated`

export async function readState(db: OwnConnection, schema: string): Promise<SchemaState> {
  const name = quoteIdentifier(schema)
  const { rows } = await db.query<{ exists: boolean; migrated: boolean }>(presence, [name])
  const exists = rows[0]?.exists ?? false
  if (!rows[0]?.migrated) return { exists, version: 0, compatibleFrom: 0 }
  const { rows: cluster } = await db.query<{ version: number; compatible_from: number }>(
    `select version, compatible_from from ${name}.cluster`,
  )
  const [row] = cluster
  return { exists, version: row?.version ?? 0, compatibleFrom: row?.compatible_from ?? 0 }
}
