import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { twistName } from '../support/settings.ts'
import { Explorer } from './explorer.ts'
import { naive } from './naive/naive.ts'
import { mixed, timed, weakened } from './naive/weakened.ts'

// The explorer is believed because it finds what was planted: the protocol with one of its rules taken out.
describe.skipIf(twistName !== 'none')('planted', () => {
  let db: TestDatabase
  beforeEach(async () => {
    db = await createDatabase()
  })
  afterEach(() => db.drop())

  test.each([...naive, ...weakened, ...mixed, ...timed])('$name', { timeout: 120_000 }, async variant => {
    const explorer = await Explorer.install(db.url, db.schema, variant.edits, variant.ddl)
    const { violation, schedules, seconds } = await explorer.explore(variant.program, {
      depth: variant.depth,
    })
    expect(violation?.message).toMatch(variant.finds)
    const schedule = violation?.schedule.map(line => `    ${line}`).join('\n')
    console.log(
      `${variant.name}: after ${schedules} schedules, ${seconds.toFixed(1)} s:\n  ${violation?.message}\n${schedule}`,
    )
  })
})
