import type pg from 'pg'
import type { TestDatabase } from '../support/database.ts'

/** Runs `work` on a connection that is closed afterwards, however it ends. */
export async function onClient<T>(db: TestDatabase, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await db.pool({ max: 1 }).connect()
  try {
    return await work(client)
  } finally {
    client.release(true)
  }
}
