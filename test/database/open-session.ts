import { randomUUID } from 'node:crypto'
import pg from 'pg'
import type { TestDatabase } from '../support/database.ts'

/** Opens a session over plain SQL; the answer closes it. */
export async function openSession(db: TestDatabase): Promise<() => Promise<unknown>> {
  const schema = pg.escapeIdentifier(db.schema)
  const session = randomUUID()
  await db.query(`select * from ${schema}.open_session($1, '30s')`, [session])
  return () => db.query(`select * from ${schema}.close_session($1)`, [session])
}
