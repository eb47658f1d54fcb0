import { escapeIdentifier } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDatabase, type TestDatabase } from './database.ts'
import { leftovers, nothing } from './leftovers.ts'
import { clientOptions, twist } from './twist.ts'
import { until } from './until.ts'

let db: TestDatabase
let schema: string
beforeAll(async () => {
  db = await createDatabase()
  schema = escapeIdentifier(db.schema)
})
afterAll(() => db.drop())

test('is migrated, into the schema of the twist', async () => {
  expect(db.schema).toBe(twist.schema)
  expect(await db.query(`select from ${schema}.sessions`)).toEqual([])
})

test('is the incarnation that was migrated, not a restored copy', async () => {
  const look = `select boot, base from ${schema}.cluster join ${schema}.canary using (boot)`
  const before = await db.query(look)
  expect(before).toHaveLength(1)
  await db.query(`select ${schema}.open_session(gen_random_uuid(), '30s')`)
  expect(await db.query(look)).toEqual(before)
  await db.query(`delete from ${schema}.sessions`)
})

test('is apart from every other database', async () => {
  const other = await createDatabase({ schema: 'another "one' })
  await other.query('create table only_here ()')
  await other.query('select from "another ""one".sessions')
  await expect(db.query('select from only_here')).rejects.toMatchObject({ code: '42P01' })
  await other.drop()
  const names = await db.query('select from pg_database where datname = $1', [other.name])
  expect(names).toEqual([])
})

test('can be empty', async () => {
  const empty = await createDatabase({ migrate: false })
  expect(await empty.query('select to_regnamespace($1) as schema', [schema])).toEqual([{ schema: null }])
  await empty.drop()
})

test('leftovers sees each kind', async () => {
  const pool = db.pool({ max: 1 })
  expect(await leftovers(pool, db.schema)).toMatchObject(nothing)

  const culprit = await db.pool({ application_name: 'culprit' }).connect()
  const session = '00000000-0000-0000-0000-000000000001'
  await culprit.query('select pg_advisory_lock(1)')
  await culprit.query(`select ${schema}.open_session('${session}', '30s')`)
  await culprit.query(
    `insert into ${schema}.locks (key, session, request, token) values ('k', '${session}', gen_random_uuid(), 1)`,
  )
  await culprit.query(
    `insert into ${schema}.waiters (key, session, request) values ('k', '${session}', gen_random_uuid())`,
  )
  expect(await leftovers(pool, db.schema)).toMatchObject({
    tickets: 1,
    grants: 1,
    sessions: 1,
    advisoryLocks: 1,
    backends: { culprit: 1 },
  })
  for (const table of ['waiters', 'locks', 'sessions']) await db.query(`delete from ${schema}.${table}`)
  culprit.release(true)
  await until(async () => {
    const left = await leftovers(pool, db.schema)
    expect(left).toMatchObject(nothing)
    return left.backends.culprit === undefined
  })
})

test('clientOptions connects to it, as the twist says', async () => {
  const { pool, schema: named, listen } = clientOptions(db)
  expect([named, listen]).toEqual([db.schema, twist.name === 'nolisten' ? false : undefined])
  const { rows } = await pool.query('select current_database() as name')
  expect(rows).toEqual([{ name: db.name }])
})
