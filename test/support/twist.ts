import type pg from 'pg'
import type { TestDatabase } from './database.ts'
import { type TwistName, twistName } from './settings.ts'

/** How this run connects to the server; FENCEPOST_TWIST sets it. */
export const twist: {
  readonly name: TwistName
  /** The schema that Fencepost is migrated into. */
  readonly schema: string
  /** Whether a client made with {@link clientOptions} gets notifications. */
  readonly notified: boolean
} = {
  name: twistName,
  schema: twistName === 'schema' ? 'Odd "schema' : 'fencepost',
  notified: twistName !== 'nolisten' && twistName !== 'pgbouncer',
}

export interface ClientOptions {
  readonly pool: pg.Pool
  readonly schema: string
  readonly listen?: false
}

/** Options for `new Fencepost(...)` that connect as the twist says. The pool is new, and ended by `db.drop()`. */
export function clientOptions(db: TestDatabase, config: pg.PoolConfig = {}): ClientOptions {
  return {
    pool: db.pool({ connectionString: db.twistedUrl, ...config }),
    schema: db.schema,
    ...(twistName === 'nolisten' && { listen: false }),
  }
}
