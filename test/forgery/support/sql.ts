import pg from 'pg'
import type { TestDatabase } from '../../support/database.ts'

/** The text of a statement in which `$schema` stands for ours. */
export function inSchema(db: Pick<TestDatabase, 'schema'>, text: string): string {
  return text.replaceAll('$schema', () => pg.escapeIdentifier(db.schema))
}

/** All rows of the tables that say who holds, who waits, who lives; as text, but for what time alone moves. */
export async function everyRow(db: TestDatabase): Promise<string> {
  const [row] = await db.query<{ rows: string }>(
    inSchema(
      db,
      `select json_build_object(
         'locks', (select json_agg(l order by l.key) from $schema.locks l),
         'waiters', (select json_agg(w order by w.ticket) from $schema.waiters w),
         'sessions', (select json_agg(to_jsonb(s) - 'expires_at' order by s.id) from $schema.sessions s),
         'fences', (select json_agg(f order by f.resource) from $schema.fences f),
         'events', (select json_agg(e order by e.id) from $schema.events e),
         'cluster', (select json_agg(c) from $schema.cluster c),
         'canary', (select json_agg(k) from $schema.canary k))::text as rows`,
    ),
  )
  return row?.rows ?? ''
}
