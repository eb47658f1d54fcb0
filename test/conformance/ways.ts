import type pg from 'pg'
import type { TestDatabase } from '../support/database.ts'
import { clientOptions, twist } from '../support/twist.ts'
import type { MakeWay, Way } from './stage.ts'

/** What a connection string for listening may be: past a transaction pooler, which loses notifications. */
export function listenUrl(db: TestDatabase): string {
  return twist.name === 'pgbouncer' ? db.url : db.twistedUrl
}

function overPool(
  db: TestDatabase,
  config: pg.PoolConfig | undefined,
  listen?: Way['options']['listen'],
): Way {
  const options = clientOptions(db, config)
  return {
    options: listen === undefined ? options : { ...options, listen },
    pool: options.pool,
    opensItsOwn: true,
  }
}

function overQuery(db: TestDatabase, config?: pg.PoolConfig): Way {
  const { pool } = clientOptions(db, config)
  const database = { query: (text: string, values?: unknown[]) => pool.query(text, values) }
  return { options: { pool: database, schema: db.schema }, pool, opensItsOwn: false }
}

/** Every way of connecting, under the name by which a test, or a child process, asks for it. */
export const ways = {
  'a pool': (db, config) => overPool(db, config),
  'a connection string': db => ({
    options: {
      connectionString: db.twistedUrl,
      schema: db.schema,
      ...(twist.name === 'nolisten' && { listen: false }),
    },
    opensItsOwn: true,
  }),
  'a pool, without listening': (db, config) => overPool(db, config, false),
  'a pool, listening elsewhere': (db, config) => overPool(db, config, { connectionString: listenUrl(db) }),
  'a query function': overQuery,
  'a query function, listening elsewhere': (db, config) => {
    const way = overQuery(db, config)
    return { ...way, options: { ...way.options, listen: { connectionString: listenUrl(db) } } }
  },
} satisfies Record<string, MakeWay>
