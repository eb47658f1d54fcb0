import type { OwnConnection } from './connection.ts'
import { MigrationError } from './migration-error.ts'
import { quoteIdentifier } from './quote.ts'

/** What is set up beside the migrations, every time anew: all of it is idempotent. */
export interface Grants {
  /** Roles that may use the locks: USAGE of the schema and EXECUTE of the public functions. */
  readonly grant?: readonly string[]
  /** Roles that may force releases and change settings as well. */
  readonly grantOperator?: readonly string[]
}

export async function grantRoles(db: OwnConnection, schema: string, grants: Grants): Promise<void> {
  const { grant = [], grantOperator = [] } = grants
  for (const role of grant) await grantTo(db, schema, 'grant_application', role)
  for (const role of grantOperator) await grantTo(db, schema, 'grant_operator', role)
}

async function grantTo(db: OwnConnection, schema: string, how: string, role: string): Promise<void> {
  try {
    await db.query(`select ${quoteIdentifier(schema)}.${how}($1)`, [role])
  } catch (cause) {
    throw new MigrationError(`cannot grant to role ${JSON.stringify(role)}`, cause)
  }
}

/** @param maxTtl milliseconds: the bound of every time to live in this schema */
export async function setMaxTtl(db: OwnConnection, schema: string, maxTtl: number): Promise<void> {
  try {
    await db.query(
      `select ${quoteIdentifier(schema)}.configure(max_ttl => make_interval(secs => $1::float8 / 1000))`,
      [maxTtl],
    )
  } catch (cause) {
    throw new MigrationError(`cannot set max_ttl to ${maxTtl} ms`, cause)
  }
}
