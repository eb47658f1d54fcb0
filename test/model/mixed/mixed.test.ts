import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDatabase, type TestDatabase } from '../../support/database.ts'
import { seed } from '../seed.ts'
import { commands, guards } from './commands.ts'
import { Database } from './database.ts'
import { Run } from './run.ts'

let db: TestDatabase
let database: Database
beforeAll(async () => {
  db = await createDatabase()
  database = await Database.connect(db, guards + 1)
})
afterAll(async () => {
  database.disconnect()
  await db.drop()
})

/** More of them find more; by hand, a thousand. */
const numRuns = Number(process.env.FENCEPOST_MODEL_RUNS || 120)

test('shared locks, permits and several keys in one line keep its rules, call after call', async () => {
  const seen = new Map<string, number>()
  const property = fc.asyncProperty(commands, async steps => {
    const run = new Run(database, seen)
    await run.begin()
    for (const step of steps) await run.step(step)
    await run.end()
  })
  await fc.assert(
    property.afterEach(() => database.empty()),
    { seed, numRuns, interruptAfterTimeLimit: numRuns * 2_000, markInterruptAsFailure: true },
  )
  console.log('the functions answered', Object.fromEntries(seen))
  for (const outcome of [
    'granted',
    'follows',
    'queued',
    'busy',
    'mismatch',
    'handed',
    'pinned',
    'released',
    'cancelled',
    'resized',
    'forced',
    'dead',
    'a guard',
  ]) {
    expect.soft(seen.get(outcome) ?? 0, outcome).toBeGreaterThan(0)
  }
}, 600_000)
