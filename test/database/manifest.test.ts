import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { withOwnConnection } from '../../src/database/migrations/connection.ts'
import { embeddedMigrations, manifest } from '../../src/database/migrations/embedded.ts'
import { migrationSql } from '../../src/database/migrations/script.ts'
import { readShape, type SchemaShape } from '../../src/database/migrations/shape.ts'
import { inTransaction } from '../../src/database/migrations/transaction.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'

let db: TestDatabase
beforeEach(async () => {
  db = await createDatabase({ migrate: false })
})
afterEach(() => db.drop())

const folder = join(import.meta.dirname, '../../migrations')
const stale = 'made anew by npm run manifest'

async function shapeOf(schema: string): Promise<SchemaShape> {
  await db.query(migrationSql({ schema }))
  return await withOwnConnection(db.url, own => inTransaction(own, () => readShape(own, schema)))
}

// `npm run manifest` runs this with --update, which writes the file.
test('manifest.json describes what the migrations make', async () => {
  const shape = await shapeOf('fencepost')
  expect(Object.keys(shape)).toEqual(expect.arrayContaining(['table canary', 'table sessions', 'view held']))
  await expect(`${JSON.stringify(shape, null, 2)}\n`).toMatchFileSnapshot(join(folder, 'manifest.json'))
})

test('a schema of another name has the same shape', async () => {
  const shape = await shapeOf('fencepost')
  expect(await shapeOf('Odd "schema')).toEqual(shape)
  expect(await shapeOf('locks')).toEqual(shape)
})

test('what is embedded is what is in the folder', () => {
  const files = readdirSync(folder).filter(name => name.endsWith('.sql'))
  expect(
    embeddedMigrations.map(({ name }) => `${name}.sql`),
    stale,
  ).toEqual(files.sort())
  for (const { name, up, down } of embeddedMigrations) {
    const text = readFileSync(join(folder, `${name}.sql`), 'utf8')
    expect(text.includes(up) && text.includes(down), `${name}: ${stale}`).toBe(true)
  }
  expect(manifest, stale).toEqual(JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')))
})
