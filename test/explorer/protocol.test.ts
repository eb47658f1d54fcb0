import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { batches } from './programs/batches.ts'
import { guards } from './programs/guards.ts'
import { lines } from './programs/lines.ts'
import { sessions } from './programs/sessions.ts'
import { Explorer } from './search.ts'

/** FENCEPOST_EXPLORE_DEPTH goes deeper than the suite has time for. */
const depth = Number(process.env.FENCEPOST_EXPLORE_DEPTH ?? 1)
const programs = [...lines, ...sessions, ...guards, ...batches]
const counted: { program: string; grain: string; schedules: number; states: number; seconds: number }[] = []

let db: TestDatabase
let explorer: Explorer
beforeAll(async () => {
  db = await createDatabase()
  explorer = await Explorer.install(db.url, db.schema)
})
afterAll(async () => {
  await db.drop()
  const schedules = counted.reduce((sum, one) => sum + one.schedules, 0)
  console.table(counted)
  console.log(`explored ${schedules} schedules of ${programs.length} programs`)
})

describe.each(programs)('$name', program => {
  test('between calls and commits, with a backend terminated at each point', { timeout: 120_000 }, async () => {
    await explore('calls', { grain: 'calls', kills: 1 })
  })
  test(`between the statements of the functions, ${depth} times out of turn`, { timeout: 120_000 }, async () => {
    await explore('statements', { depth })
  })

  async function explore(grain: string, options: Parameters<Explorer['explore']>[1]): Promise<void> {
    const found = await explorer.explore(program, options)
    counted.push({
      program: program.name,
      grain,
      schedules: found.schedules,
      states: found.states,
      seconds: Math.round(found.seconds * 10) / 10,
    })
    expect(found.violation).toBeUndefined()
    expect(found.finished).toBeGreaterThan(1)
  }
})
