import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { twistName } from '../support/settings.ts'
import { acquire, at, type Call, cancel, heartbeat, token } from './calls.ts'
import { Explorer } from './explorer.ts'
import type { Program } from './program.ts'
import { inTurn, letGo } from './programs/scripts.ts'

const actor = (name: string, ...calls: Call[]) => ({ name, script: () => inTurn(...calls) })
const queued = [acquire('S1', [at('k', 'r11')]), acquire('S2', [at('k', 'r21')])]

const programs: readonly (Program & { depth: number })[] = [
  {
    name: 'a hand-over meets a cancel',
    depth: 2,
    sessions: { S1: 60, S2: 60 },
    key: 'k',
    quiet: ['sessions'],
    before: queued,
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      actor('B', cancel('S2', at('k', 'r21'))),
    ],
  },
  {
    name: 'a heartbeat meets a try while time passes',
    depth: 1,
    sessions: { S1: 10, S2: 60 },
    clock: [2],
    before: [acquire('S1', [at('k', 'r11')]), 9],
    actors: [actor('A', heartbeat('S1')), actor('B', acquire('S2', [at('k', 'r21')], { wait: false }))],
  },
]

describe.skipIf(twistName !== 'none')('what the explorer leaves out makes no difference', () => {
  let db: TestDatabase
  let explorer: Explorer
  beforeAll(async () => {
    db = await createDatabase()
    explorer = await Explorer.install(db.url, db.schema)
  })
  afterAll(() => db?.drop())

  test.each(programs)('$name', { timeout: 120_000 }, async program => {
    const all = await explorer.explore(program, { depth: program.depth, reduce: false })
    const reduced = await explorer.explore(program, { depth: program.depth })
    expect([...all.ends].filter(end => !reduced.ends.has(end))).toEqual([])
    expect(all.ends.size).toBeGreaterThan(1)
    expect(reduced.schedules).toBeLessThan(all.schedules)
  })
})
