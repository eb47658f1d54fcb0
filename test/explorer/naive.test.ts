import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { variants } from './naive/variants.ts'
import { Explorer } from './search.ts'

// The explorer is believed because it finds what is planted: the protocol with one of its rules taken out.
let db: TestDatabase
beforeEach(async () => {
  db = await createDatabase()
})
afterEach(() => db.drop())

describe.each(variants)('$name', variant => {
  test('is found, and told in words', { timeout: 120_000 }, async () => {
    const explorer = await Explorer.install(db.url, db.schema, variant.edits, variant.ddl)
    const found = await explorer.explore(variant.program, { depth: variant.depth })
    expect(found.violation?.message).toMatch(variant.finds)
    expect(found.violation?.schedule.length).toBeGreaterThan(2)
  })
})
