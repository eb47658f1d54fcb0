import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { latestVersion } from '../../src/database/migrations/catalog.ts'
import { migrationSql } from '../../src/database/migrations/script.ts'
import { BadOptionError } from '../../src/errors.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { ledger, names, run, status } from './migrating.ts'

let db: TestDatabase
beforeEach(async () => {
  db = await createDatabase({ migrate: false })
})
afterEach(() => db.drop())

test('what another tool has applied is recognised, written down, and gone on from', async () => {
  await db.query(migrationSql({ schema: db.schema, to: 3 }))
  expect(await run(db)).toEqual({
    version: latestVersion,
    applied: names.slice(3),
    reverted: [],
    recorded: names.slice(0, 3),
  })
  expect(await ledger(db)).toEqual(names)
  expect((await status(db)).drift).toEqual([])
})

test('what another tool has reverted is applied again', async () => {
  await run(db)
  await db.query(migrationSql({ schema: db.schema, direction: 'down', to: 2 }))
  expect((await run(db)).applied).toEqual(names.slice(2))
  expect(await ledger(db)).toEqual(names)
})

test('a schema of a newer package is left as it is, and its word counts on who may use it', async () => {
  await run(db)
  const cluster = `${pg.escapeIdentifier(db.schema)}.cluster`
  await db.query(`update ${cluster} set version = version + 1`)
  expect(await run(db)).toMatchObject({ version: latestVersion + 1, applied: [] })
  expect(await status(db)).toMatchObject({ version: latestVersion + 1, pending: [], compatible: true })
  await db.query(`update ${cluster} set compatible_from = version`)
  expect(await status(db)).toMatchObject({ compatible: false })
  await expect(run(db, { direction: 'down' })).rejects.toThrow(BadOptionError)
})
