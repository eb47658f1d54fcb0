import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { latestVersion } from '../../src/database/migrations/catalog.ts'
import { MigrationError } from '../../src/database/migrations/migration-error.ts'
import { migrationSql } from '../../src/database/migrations/script.ts'
import { BadOptionError } from '../../src/errors.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { ledger, names, run, status } from './migrating.ts'
import { openSession } from './open-session.ts'

let db: TestDatabase
beforeEach(async () => {
  db = await createDatabase({ migrate: false })
})
afterEach(() => db.drop())

test('reverts one by one, to where nothing is left but the record', async () => {
  await run(db)
  expect(await run(db, { direction: 'down' })).toEqual({
    version: latestVersion - 1,
    applied: [],
    reverted: names.slice(-1),
    recorded: [],
  })
  expect(await ledger(db)).toEqual(names.slice(0, -1))
  await run(db, { direction: 'down', count: names.length })
  const left = await db.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = $1::regnamespace
      union all select proname from pg_proc where pronamespace = $1::regnamespace
      union all select typname from pg_type where typnamespace = $1::regnamespace and typtype <> 'b' order by name`,
    [pg.escapeIdentifier(db.schema)],
  )
  expect([...new Set(left.map(({ name }) => name))]).toEqual([
    'migrations',
    'migrations_id_seq',
    'migrations_pkey',
  ])
  expect((await run(db)).applied).toEqual(names)
})

test.each(names.map((name, index) => [name, index + 1] as const))(
  'up, down, and up again: %s',
  async (_, version) => {
    await db.query(migrationSql({ schema: db.schema, to: version }))
    await run(db, { direction: 'down' })
    expect(await status(db)).toMatchObject({ version: version - 1 })
    await run(db)
    expect(await status(db)).toMatchObject({ version: latestVersion, drift: [] })
  },
)

test('refuses while a session lives, and reverts once it has closed', async () => {
  await run(db)
  const close = await openSession(db)
  const failure = await run(db, { direction: 'down', count: names.length }).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(MigrationError)
  expect(failure).toMatchObject({ cause: { code: 'FP006' } })
  expect(await status(db)).toMatchObject({ version: latestVersion, drift: [] })
  await close()
  expect((await run(db, { direction: 'down', count: names.length })).version).toBe(0)
})

test('on a database without the schema there is nothing to do', async () => {
  expect(await run(db, { direction: 'down' })).toEqual({
    version: 0,
    applied: [],
    reverted: [],
    recorded: [],
  })
})

test.each([0, -1, 1.5, Number.NaN])('refuses a count of %d', async count => {
  await expect(run(db, { direction: 'down', count })).rejects.toThrow(BadOptionError)
})
