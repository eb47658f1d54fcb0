import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDatabase, type TestDatabase } from '../../support/database.ts'
import { seed } from '../seed.ts'
import { commands, guards } from './commands.ts'
import { DatabaseSide } from './database-side.ts'
import { Run } from './run.ts'

let db: TestDatabase
let database: DatabaseSide
beforeAll(async () => {
  db = await createDatabase()
  database = await DatabaseSide.connect(db, guards)
})
afterAll(async () => {
  database.disconnect()
  await db.drop()
})

test('the SQL functions do what the model does, call after call', async () => {
  const seen = new Map<string, number>()
  const property = fc.asyncProperty(commands, async steps => {
    const run = new Run(database, seen)
    await run.begin()
    for (const step of steps) await run.step(step)
    await run.end()
  })
  await fc.assert(
    property.afterEach(() => database.empty()),
    { seed, numRuns: 120, interruptAfterTimeLimit: 90_000, markInterruptAsFailure: true },
  )
  console.log('the functions answered', Object.fromEntries(seen))
  for (const outcome of [
    'granted',
    'follows',
    'queued',
    'busy',
    'handed',
    'pinned',
    'released',
    'absent',
    'cancelled',
    'forced',
    'dead',
    'anew',
    'a guard',
    'no guard',
  ]) {
    expect.soft(seen.get(outcome) ?? 0, outcome).toBeGreaterThan(0)
  }
}, 120_000)
