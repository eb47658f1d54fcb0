import { escapeIdentifier, type Pool } from 'pg'
import { expect } from 'vitest'
import { until } from './until.ts'

export interface Leftovers {
  readonly tickets: number
  /** Keys in use, and those who hold one with others; a semaphore's head stays. */
  readonly grants: number
  /** Sessions that live; the dead are the reaper's. */
  readonly sessions: number
  readonly advisoryLocks: number
  /** Connections to this database, except the one that asks, by application_name. */
  readonly backends: Readonly<Record<string, number>>
}

export const nothing: Omit<Leftovers, 'backends'> = { tickets: 0, grants: 0, sessions: 0, advisoryLocks: 0 }

/** What is in the database at this moment in one look. */
export async function leftovers(pool: Pool, schema: string): Promise<Leftovers> {
  const name = escapeIdentifier(schema)
  const { rows } = await pool.query(`
    select (select count(*)::int from ${name}.waiters) as tickets,
           (select count(*)::int from ${name}.locks where mode is distinct from 'permits')
             + (select count(*)::int from ${name}.holders) as grants,
           (select count(*)::int from ${name}.sessions where died is null) as sessions,
           (select count(*)::int from pg_locks
             where locktype = 'advisory'
               and database = (select oid from pg_database where datname = current_database())) as "advisoryLocks",
           (select coalesce(json_object_agg(application_name, backends), '{}')
              from (select application_name, count(*) as backends from pg_stat_activity
                     where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
                     group by application_name) as by_name) as backends`)
  return rows[0]
}

/**
 * Once the clients of a test are closed. Rows are gone with the promise that closed them; what a connection itself held
 * is gone with its backend, which learns late that its client has left.
 */
export async function expectNothingLeft(pool: Pool, schema: string): Promise<void> {
  const { advisoryLocks: _, ...rows } = nothing
  expect(await leftovers(pool, schema)).toMatchObject(rows)
  await until(async () => {
    expect(await leftovers(pool, schema)).toMatchObject(nothing)
    return true
  })
}
