import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { migrationStatus } from '../../src/database/migration-status.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'

let db: TestDatabase
let schema: string
beforeEach(async () => {
  db = await createDatabase()
  schema = pg.escapeIdentifier(db.schema)
})
afterEach(() => db.drop())

async function drift() {
  return (await migrationStatus({ connection: db.url, schema: db.schema })).drift
}

test('a schema as it was shipped has not drifted', async () => {
  expect(await drift()).toEqual([])
})

test.each([
  [
    'an index dropped',
    'alter table S.locks drop constraint locks_session_token_key',
    'missing: index locks.locks_session_token_key',
  ],
  [
    'a constraint dropped',
    'alter table S.locks drop constraint locks_key_check',
    'missing: constraint locks.locks_key_check',
  ],
  ['an index added', 'create index extra on S.sessions (expires_at)', 'unexpected: index sessions.extra'],
  ['a column added', 'alter table S.locks add column extra int', 'unexpected: column locks.extra'],
  [
    'a column of another type',
    'alter table S.fences alter column token type numeric',
    'changed: column fences.token',
  ],
  [
    'a column that may be null',
    'alter table S.locks alter column token drop not null',
    'changed: column locks.token',
  ],
  [
    'a default dropped',
    'alter table S.locks alter column contended drop default',
    'changed: column locks.contended',
  ],
  ['another fillfactor', 'alter table S.locks set (fillfactor = 100)', 'changed: table locks'],
  ['a canary that survives a crash', 'alter table S.canary set logged', 'changed: table canary'],
  ['a sequence that caches', 'alter sequence S.fencing cache 10', 'changed: sequence fencing'],
  ['a function dropped', 'drop function S.schema_version()', 'missing: function schema_version()'],
  [
    "a function with the caller's rights",
    'alter function S.schema_version() security invoker',
    'changed: function schema_version()',
  ],
  [
    "a function on the caller's search_path",
    'alter function S.schema_version() reset search_path',
    'changed: function schema_version()',
  ],
  [
    'a function that everybody may call',
    'grant execute on function S.schema_version() to public',
    'changed: function schema_version()',
  ],
  [
    'a second function of the same name',
    'create function S.schema_version(int) returns int language sql as $$select 1$$',
    'unexpected: function schema_version(integer)',
  ],
  [
    'a trigger',
    'create trigger extra before update on S.locks for each row execute function suppress_redundant_updates_trigger()',
    'unexpected: trigger locks.extra',
  ],
])('sees %s', async (_, change, line) => {
  await db.query(change.replaceAll('S.', `${schema}.`))
  expect(await drift()).toContainEqual(line)
})

test('sees a function with another body', async () => {
  await db.query(
    `create or replace function ${schema}.schema_version() returns table (version int, compatible_from int, replication text)
       language sql stable security definer set search_path = ${schema}, pg_temp as $$ select 1, 1, 'asynchronous' $$`,
  )
  expect(await drift()).toEqual(['changed: function schema_version()'])
})

test('sees a view that reads something else', async () => {
  const [view] = await db.query<{ text: string }>(
    `select pg_get_viewdef('${schema}.pending'::regclass) as text`,
  )
  const text = view?.text.replace('w.label,', 's.owner as label,')
  expect(text).not.toBe(view?.text)
  await db.query(`create or replace view ${schema}.pending as ${text}`)
  expect(await drift()).toEqual(['changed: view pending'])
})

test("does not mind what is the user's own", async () => {
  await db.query(`create table ${schema}.their_own (a int primary key)`)
  await db.query(`create view ${schema}.their_view as select 1 as one`)
  await db.query(`create function ${schema}.their_function() returns int language sql as $$ select 1 $$`)
  expect(await drift()).toEqual([])
})

test("is not misled by the session's settings", async () => {
  for (const setting of [
    'quote_all_identifiers = on',
    "intervalstyle = 'iso_8601'",
    "datestyle = 'German'",
  ]) {
    await db.query(`alter database ${db.name} set ${setting}`)
  }
  expect(await drift()).toEqual([])
})

test('is not looked for while versions differ', async () => {
  await db.query(`drop function ${schema}.schema_version()`)
  await db.query(`update ${schema}.cluster set version = version - 1`)
  expect(await migrationStatus({ connection: db.url, schema: db.schema })).toMatchObject({
    drift: [],
    compatible: false,
  })
})
