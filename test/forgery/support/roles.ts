import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { migrate } from '../../../src/database/migrate.ts'
import type { TestDatabase } from '../../support/database.ts'

/** A role that may log in, and what it was granted. */
export interface Role {
  readonly name: string
  readonly url: string
}

export async function createRole(
  db: TestDatabase,
  kind: 'application' | 'operator',
  prefix = db.name,
): Promise<Role> {
  const name = `${prefix}_${kind}`
  const password = randomBytes(12).toString('hex')
  await db.query(`create role ${pg.escapeIdentifier(name)} login password '${password}'`)
  const url = new URL(db.url)
  Object.assign(url, { username: encodeURIComponent(name), password })
  const grants = kind === 'operator' ? { grantOperator: [name] } : { grant: [name] }
  await migrate({ connection: db.url, schema: db.schema, ...grants })
  return { name, url: url.href }
}

/** Roles belong to the server, not to the database that a test drops. */
export async function dropRole(db: TestDatabase, { name }: Pick<Role, 'name'>): Promise<void> {
  const role = pg.escapeIdentifier(name)
  await db.query(`drop owned by ${role}; drop role ${role}`)
}
