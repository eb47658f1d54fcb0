import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { migrate } from '../../src/database/migrate.ts'
import { MigrationError } from '../../src/database/migrations/migration-error.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { onClient } from './on-client.ts'

let db: TestDatabase
let schema: string
let application: string
let operator: string
beforeEach(async () => {
  db = await createDatabase()
  schema = pg.escapeIdentifier(db.schema)
  application = `Wants "quotes" ${db.name}`
  operator = `${db.name}_operator`
  for (const role of [application, operator]) await db.query(`create role ${pg.escapeIdentifier(role)}`)
})
afterEach(async () => {
  for (const role of [application, operator].map(name => pg.escapeIdentifier(name))) {
    await db.query(`drop owned by ${role}; drop role ${role}`)
  }
  await db.drop()
})

function grant(): Promise<unknown> {
  const grants = { grant: [application], grantOperator: [operator] }
  return migrate({ connection: db.url, schema: db.schema, ...grants })
}

const functions = `
  select array_agg(distinct proname::text order by proname::text) as names from pg_proc
   where pronamespace = $2::regnamespace and has_function_privilege($1, oid, 'execute')`

async function mayCall(role: string): Promise<readonly string[]> {
  const [row] = await db.query<{ names: string[] | null }>(functions, [role, schema])
  return row?.names ?? []
}

const relations = `
  select array_agg(relname::text order by relname::text) as names from pg_class
   where relnamespace = $2::regnamespace and relkind in ('r', 'v', 'S')
     and case relkind when 'S' then has_sequence_privilege($1, oid, 'usage, select, update')
              else has_table_privilege($1, oid, 'select, insert, update, delete, truncate, references, trigger')
                or has_any_column_privilege($1, oid, 'select, insert, update, references') end`

async function mayTouch(role: string): Promise<readonly string[]> {
  const [row] = await db.query<{ names: string[] | null }>(relations, [role, schema])
  return row?.names ?? []
}

const published = [
  ...[
    'acquire',
    'advisory_lock_within',
    'announce_schedule',
    'assert_held',
    'cancel',
    'clock_stepped',
    'close_session',
    'dispatch',
    'downgrade',
    'end_tick',
  ],
  ...[
    'fence',
    'fence_table',
    'fenced',
    'heartbeat',
    'incarnation',
    'invoke',
    'leader',
    'leave_schedule',
    'look_once',
    'look_schedule',
    'open_session',
    'pin',
    'pin_again',
  ],
  ...[
    'present',
    'presented_setting',
    'probe_presence',
    'query',
    'query_schedules',
    'raise_generation',
    'reap_absent',
    'record_once',
    'release',
    'release_and_acquire',
    'release_and_notify',
    'resize',
    'schema_version',
    'settle',
    'show_presence',
    'take_tick',
    'tick',
  ],
  ...['transaction_status', 'turn', 'unfence_table', 'waits_for', 'withdraw_presence'],
]

test('a role without a grant may do nothing at all', async () => {
  expect(await mayCall(application)).toEqual([])
  expect(await mayTouch(application)).toEqual([])
  expect(await schemaPrivileges(application)).toEqual({ usage: false, create: false })
})

test('an application role has USAGE and EXECUTE of what is public, and nothing more', async () => {
  await grant()
  expect(await mayCall(application)).toEqual(published)
  expect(await mayTouch(application)).toEqual([])
  expect(await schemaPrivileges(application)).toEqual({ usage: true, create: false })
})

const operators = ['configure', 'dispatch_operator', 'force_release', 'invoke_operator', 'raise_base']

test('an operator role may see, force and configure as well', async () => {
  await grant()
  expect(await mayCall(operator)).toEqual([...published, ...operators].sort())
  expect(await mayTouch(operator)).toEqual([
    'events',
    'held',
    'pending',
    'schedule_drift',
    'schedules',
    'ticks',
  ])
  const [events] = await db.query(
    `select has_column_privilege($1, $2, 'reason', 'select') as reason,
            has_column_privilege($1, $2, 'session', 'select') as session,
            has_any_column_privilege($1, $2, 'insert, update') as write`,
    [operator, `${schema}.events`],
  )
  expect(events).toEqual({ reason: true, session: false, write: false })
  expect(await schemaPrivileges(operator)).toEqual({ usage: true, create: false })
})

test('a grant again changes nothing', async () => {
  await grant()
  await grant()
  expect(await mayCall(application)).toEqual(published)
})

async function schemaPrivileges(role: string) {
  const [row] = await db.query(
    `select has_schema_privilege($1, $2::regnamespace, 'usage') as usage,
            has_schema_privilege($1, $2::regnamespace, 'create') as create`,
    [role, schema],
  )
  return row
}

test('the application role takes a lock with it, and gets at nothing behind the functions', async () => {
  await grant()
  await onClient(db, async client => {
    await client.query(`set role ${pg.escapeIdentifier(application)}`)
    const session = randomUUID()
    const { rows } = await client.query(`select generation from ${schema}.open_session($1, '30s')`, [session])
    const acquire = `select outcome, token from ${schema}.acquire($1, $2, array['k'], array[gen_random_uuid()])`
    const granted = await client.query(acquire, [session, rows[0].generation])
    expect(granted.rows).toEqual([{ outcome: 'granted', token: expect.any(String) }])

    for (const forbidden of [
      `select * from ${schema}.locks`,
      `update ${schema}.cluster set max_ttl = '1 day'`,
      `select nextval('${schema}.fencing')`,
      `select ${schema}.grace()`,
      `select ${schema}.configure(max_ttl => '1 day')`,
      `select ${schema}.force_release('k', 'I want it')`,
      `call ${schema}.invoke_operator('force_release', '{"key": "k", "reason": "I want it"}')`,
      `select ${schema}.raise_base('higher')`,
      `select * from ${schema}.held`,
      `select * from ${schema}.events`,
      `select ${schema}.grant_operator(current_user)`,
      `create function ${schema}.acquire() returns int language sql as 'select 1'`,
    ]) {
      await expect(client.query(forbidden), forbidden).rejects.toMatchObject({ code: '42501' })
    }
    // By the way that is open to it, the operator's functions are not to be had.
    const { rows: through } = await client.query(
      `call ${schema}.invoke('force_release', '{"key": "k", "reason": "I want it"}')`,
    )
    expect(through).toEqual([{ result: null }])
    const seen = await client.query(`select ${schema}.query() as seen`)
    expect(seen.rows[0].seen.held).toMatchObject([{ key: 'k', state: 'held' }])
    expect(JSON.stringify(seen.rows)).not.toContain(session)
  })
})

// A definer function that looks names up where its caller may create them runs the caller's code as its owner.
test('functions with the rights of their owner look nowhere but in their schema, temporary tables last', async () => {
  const loose = await db.query(
    `select proname from pg_proc where pronamespace = $1::regnamespace and prosecdef
        and not coalesce(proconfig @> array['search_path=' || quote_ident($2) || ', pg_temp'], false)`,
    [schema, db.schema],
  )
  expect(loose).toEqual([])
  await grant()
  await onClient(db, async client => {
    await client.query(`set role ${pg.escapeIdentifier(application)}`)
    await client.query('create temporary table sessions (); create temporary table cluster ()')
    await client.query(`select * from ${schema}.open_session(gen_random_uuid(), '30s')`)
  })
  expect(await db.query(`select from ${schema}.sessions`)).toHaveLength(1)
})

test('a grant to nobody is refused by name, and nothing of the call is done', async () => {
  const to = { grant: [application, 'nobody at all'] }
  const failure = await migrate({ connection: db.url, schema: db.schema, ...to }).catch(
    (error: unknown) => error,
  )
  expect(failure).toBeInstanceOf(MigrationError)
  expect(String(failure)).toContain('"nobody at all"')
  expect(failure).toMatchObject({ cause: { code: '42704' } })
  expect(await mayCall(application)).toEqual([])
})
