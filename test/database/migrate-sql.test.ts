import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runner } from 'node-pg-migrate'
import type pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { migrate } from '../../src/database/migrate.ts'
import { migrationStatus } from '../../src/database/migration-status.ts'
import { latestVersion } from '../../src/database/migrations/catalog.ts'
import { migrationLockKey } from '../../src/database/migrations/schema-name.ts'
import { migrationSql } from '../../src/database/migrations/script.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { onClient } from './on-client.ts'

let db: TestDatabase
beforeEach(async () => {
  db = await createDatabase({ migrate: false })
})
afterEach(() => db.drop())

function status(schema = db.schema) {
  return migrationStatus({ connection: db.url, schema })
}

const shipped = { version: latestVersion, pending: [], drift: [], compatible: true }

test.each(['fencepost', 'Odd "schema', "o'clock", '$fencepost$', '$migration$', 'back\\slash'])(
  'outside a transaction, schema %s: what it makes is what migrate makes',
  async schema => {
    await db.query(migrationSql({ schema }))
    expect(await status(schema)).toMatchObject(shipped)
    expect(await migrate({ connection: db.url, schema })).toMatchObject({
      version: latestVersion,
      applied: [],
    })
  },
)

test('step by step, from version to version and back', async () => {
  const { schema } = db
  for (let to = 1; to <= latestVersion; to += 1) {
    await db.query(migrationSql({ schema, from: to - 1, to }))
    expect((await status()).version).toBe(to)
  }
  expect(await status()).toMatchObject(shipped)
  for (let to = latestVersion - 1; to >= 0; to -= 1) {
    await db.query(migrationSql({ schema, direction: 'down', from: to + 1, to }))
    expect((await status()).version).toBe(to)
  }
})

test("the caller's search_path is untouched, in a transaction or without one", async () => {
  await onClient(db, async client => {
    await client.query('create schema elsewhere')
    await client.query('set search_path = elsewhere, public')
    await client.query(migrationSql({ schema: 'one' }))
    expect(await searchPath(client)).toBe('elsewhere, public')

    await client.query('begin; set local search_path = public')
    await client.query(migrationSql({ schema: 'two' }))
    expect(await searchPath(client)).toBe('public')
    await client.query('create table mine ()')
    await client.query('commit')
    expect(await searchPath(client)).toBe('elsewhere, public')

    await client.query('reset search_path')
    await client.query('begin')
    await client.query(migrationSql({ schema: 'three' }))
    await client.query('commit')
    expect(await searchPath(client)).toBe('"$user", public')
  })
  expect(await db.query("select to_regclass('public.mine') is not null as there")).toEqual([{ there: true }])
})

test('migrate leaves the search_path of a connection that a pooler lends on as it was', async () => {
  await db.query(`alter database ${db.name} set search_path = public`)
  await migrate({ connection: db.twistedUrl, schema: db.schema })
  const pool = db.pool({ connectionString: db.twistedUrl, max: 5 })
  const paths = await Promise.all(Array.from({ length: 5 }, () => pool.query('show search_path')))
  expect(paths.map(({ rows }) => rows[0].search_path)).toEqual(Array(5).fill('public'))
})

async function searchPath(client: pg.PoolClient): Promise<string> {
  return (await client.query('show search_path')).rows[0].search_path
}

test('what is in it is rolled back with the transaction around it', async () => {
  await onClient(db, async client => {
    await client.query('begin')
    await client.query(migrationSql({ schema: db.schema }))
    await client.query('rollback')
  })
  expect(await status()).toMatchObject({ version: 0 })
})

test('a schema at another version is refused', async () => {
  const { schema } = db
  await db.query(migrationSql({ schema, to: 2 }))
  await expect(db.query(migrationSql({ schema }))).rejects.toMatchObject({ code: '55000' })
  await expect(db.query(migrationSql({ schema, from: 1 }))).rejects.toMatchObject({ code: '55000' })
  await expect(db.query(migrationSql({ schema, from: 3, to: 4 }))).rejects.toMatchObject({ code: '55000' })
  expect(await status()).toMatchObject({ version: 2 })
})

test('waits for a migration that is running', async () => {
  await onClient(db, async other => {
    await other.query('begin')
    await other.query('select pg_advisory_xact_lock($1)', [migrationLockKey(db.schema)])
    const applied = db.query(migrationSql({ schema: db.schema }))
    await until(async () => {
      const waiting = await db.query("select from pg_locks where locktype = 'advisory' and not granted")
      return waiting.length === 1
    })
    await other.query('commit')
    await applied
  })
  expect(await status()).toMatchObject(shipped)
})

test("a project's own node-pg-migrate applies and reverts it among its own migrations", async () => {
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-project-'))
  const script = join(import.meta.dirname, '../../src/database/migrations/script.ts')
  const options = JSON.stringify({ schema: db.schema })
  writeFileSync(
    join(folder, '1_fencepost.ts'),
    `import { migrationSql } from ${JSON.stringify(script)}
     export const up = pgm => pgm.sql(migrationSql(${options}))
     export const down = pgm => pgm.sql(migrationSql({ ...${options}, direction: 'down' }))`,
  )
  writeFileSync(
    join(folder, '2_theirs.sql'),
    '-- Up Migration\ncreate table theirs ();\n-- Down Migration\ndrop table theirs;',
  )
  const project = { databaseUrl: db.url, dir: folder, migrationsTable: 'pgmigrations', log: () => {} }
  try {
    await runner({ ...project, direction: 'up' })
    expect(await status()).toMatchObject(shipped)
    expect(await db.query("select to_regclass('public.theirs') is not null as there")).toEqual([
      { there: true },
    ])
    await runner({ ...project, direction: 'down', count: 2 })
    expect(await status()).toMatchObject({ version: 0 })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('nothing to do is a script that does nothing', async () => {
  await db.query(migrationSql({ schema: db.schema, from: 0, to: 0 }))
  expect(await status()).toMatchObject({ version: 0 })
})
