import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDatabase, type TestDatabase } from '../../support/database.ts'
import { expectNothingLeft } from '../../support/leftovers.ts'
import { clientOptions } from '../../support/twist.ts'
import { seed } from '../seed.ts'
import { steps } from './acts.ts'
import { World } from './world.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await createDatabase()
})
afterAll(() => db.drop())

test('clients hold what the model says they may, whatever is done to them', async () => {
  const options = clientOptions(db)
  const lookups = db.pool({ max: 1 })
  const seen = new Map<string, number>()
  const property = fc.asyncProperty(steps, async each => {
    const world = await World.begin(db, options, seen)
    try {
      for (const step of each) await world.step(step)
      await world.end()
    } finally {
      await world.close()
    }
    await expectNothingLeft(lookups, db.schema)
  })
  await fc.assert(property, { seed, numRuns: 25, endOnFailure: true })
  console.log('the clients saw', Object.fromEntries(seen))
  for (const what of [
    'acquire',
    'try',
    'abort',
    'release',
    'terminate',
    'somebody waits',
    'refused: null',
    'refused: aborted',
    'refused: timed_out',
  ]) {
    expect.soft(seen.get(what) ?? 0, what).toBeGreaterThan(0)
  }
}, 120_000)
