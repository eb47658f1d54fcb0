import pg from 'pg'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { migrationStatus } from '../../src/database/migration-status.ts'
import { latestVersion } from '../../src/database/migrations/catalog.ts'
import { MigrationError } from '../../src/database/migrations/migration-error.ts'
import { BadOptionError, ReadOnlyServerError } from '../../src/errors.ts'
import { asAdmin } from '../support/admin.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { createHostileRole } from '../support/hostile.ts'
import { until } from '../support/until.ts'
import { ledger, names, run, status } from './migrating.ts'
import { onClient } from './on-client.ts'

let db: TestDatabase
beforeEach(async () => {
  db = await createDatabase({ migrate: false })
})
afterEach(() => db.drop())

test('applies everything in order, and nothing the second time', async () => {
  expect(await run(db)).toEqual({ version: latestVersion, applied: names, reverted: [], recorded: [] })
  expect(await run(db)).toEqual({ version: latestVersion, applied: [], reverted: [], recorded: [] })
  expect(await ledger(db)).toEqual(names)
  expect(await status(db)).toMatchObject({ version: latestVersion, pending: [], drift: [], compatible: true })
})

test.each(['Odd "schema', "o'clock", 'back\\slash', 'a.b', 'ÄÖ €', 'public', '$fencepost$', 'x'.repeat(63)])(
  'a schema by the name of %s',
  async schema => {
    expect((await run(db, { schema })).applied).toEqual(names)
    expect(await ledger(db, schema)).toEqual(names)
    expect(await status(db, schema)).toMatchObject({ version: latestVersion, drift: [] })
    expect((await run(db, { schema, direction: 'down', count: names.length })).reverted).toHaveLength(
      names.length,
    )
  },
)

test.each(['', 'a\0b', 'x'.repeat(64), 'ü'.repeat(32), 'pg_mine'])(
  'refuses the schema name %j',
  async schema => {
    await expect(run(db, { schema })).rejects.toThrow(BadOptionError)
  },
)

test('two schemas in one database are apart', async () => {
  await run(db, { schema: 'one' })
  expect((await run(db, { schema: 'two' })).applied).toEqual(names)
  await run(db, { schema: 'one', direction: 'down', count: names.length })
  expect(await status(db, 'two')).toMatchObject({ version: latestVersion, drift: [] })
})

test('a role whose defaults are all against it migrates, however long a step takes', async () => {
  const { adminUrl, run: prefix } = inject('server')
  const connection = await asAdmin(adminUrl, admin =>
    createHostileRole(admin, db.url, `${prefix}_${Date.now()}`),
  )
  await onClient(db, async other => {
    await other.query(`begin; create schema ${pg.escapeIdentifier(db.schema)}`)
    const migrating = run(db, { connection, log: stall })
    await until(() => oneHasWaited('1.1s'), { what: 'a step outlasts the timeouts of the role' })
    await other.query('commit')
    expect((await migrating).applied).toEqual(names)
  })
})

async function oneHasWaited(time: string): Promise<boolean> {
  const waiting = await db.query(
    `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
        and clock_timestamp() - query_start > $1::interval`,
    [time],
  )
  return waiting.length === 1
}

// Once, between two statements: the transaction is idle for longer than the role may be.
function stall(line: string): void {
  if (line.includes('001')) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_100)
}

test("a pool's options will do, and its query_timeout does not count", async () => {
  const { username: user, password, hostname: host, port, pathname } = new URL(db.url)
  const database = pathname.slice(1)
  const where = { connectionString: undefined, user, password, host, port: Number(port), database }
  const pool = db.pool({ ...where, query_timeout: 1 })
  expect(Object.keys(pool.options)).not.toContain('password')
  expect((await run(db, { connection: pool.options })).applied).toEqual(names)
})

test('a role that may not create schemas migrates into one that was made for it', async () => {
  const role = pg.escapeIdentifier(`${db.name}_owner`)
  await db.query(`create role ${role} login password 'x'`)
  await db.query(`create schema mine authorization ${role}`)
  const url = new URL(db.url)
  url.username = `${db.name}_owner`
  url.password = 'x'
  expect((await run(db, { connection: url.href, schema: 'mine' })).applied).toEqual(names)

  const refusal = await run(db, { connection: url.href, schema: 'other' }).catch((error: unknown) => error)
  expect(refusal).toBeInstanceOf(MigrationError)
  expect(refusal).toMatchObject({ cause: { code: '42501' } })
  await db.query(`drop owned by ${role}`)
})

test('all of it or nothing: a step that is refused takes those before it along', async () => {
  await db.query(`create schema ${pg.escapeIdentifier(db.schema)}`)
  await db.query(`create view ${pg.escapeIdentifier(db.schema)}.held as select 1 as one`)
  const failure = await run(db).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(MigrationError)
  expect(failure).toMatchObject({ cause: { code: '42P07' } })
  const tables = await db.query('select from pg_class where relnamespace = $1::regnamespace', [
    pg.escapeIdentifier(db.schema),
  ])
  expect(tables).toHaveLength(1)
})

test('a server that takes no writes is refused by name', async () => {
  await db.query(`alter database ${db.name} set default_transaction_read_only = on`)
  await expect(run(db, { connection: db.url })).rejects.toThrow(ReadOnlyServerError)
  expect(await migrationStatus({ connection: db.url, schema: db.schema })).toMatchObject({ version: 0 })
})

test('sets max_ttl', async () => {
  await run(db, { maxTtl: 90_000 })
  const [row] = await db.query(`select max_ttl = '90s' as ok from ${pg.escapeIdentifier(db.schema)}.cluster`)
  expect(row).toEqual({ ok: true })
  await expect(run(db, { maxTtl: 999 })).rejects.toThrow(BadOptionError)
})
