// Takeover 'fast', where a leader's process is killed.
import { escapeIdentifier } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Fencepost } from '../../../src/index.ts'
import { Child } from '../../support/child.ts'
import { createDatabase, type TestDatabase } from '../../support/database.ts'
import { until } from '../../support/until.ts'

const script = new URL('../worker.mjs', import.meta.url)
const ttl = 30_000
const grace = 1_000

let db: TestDatabase
let sessions: string
beforeAll(async () => {
  db = await createDatabase()
  sessions = `${escapeIdentifier(db.schema)}.sessions`
})
afterAll(() => db.drop())

/** As if this life of the server had begun long ago. */
async function grownUp(): Promise<void> {
  await db.query(`update ${escapeIdentifier(db.schema)}.cluster set since = since - interval '1 h'`)
}

test('the next in line leads after the grace, and long before the ttl has run out', async () => {
  const options = { ttl, takeover: 'fast', grace } as const
  await using child = new Child(script, {
    args: [JSON.stringify({ url: db.url, schema: db.schema, by: 'campaign', ...options })],
  })
  const elected = await child.message('elected')
  await using fp = new Fencepost({ connectionString: db.url, schema: db.schema })
  const candidate = fp.election('e', options)
  const campaign = candidate.campaign()
  await grownUp()
  await until(
    async () => (await db.query(`select from ${sessions} where presence_boot is not null`)).length === 2,
    { what: 'both show their presence' },
  )
  const killed = performance.now()
  await child.kill()
  const term = await campaign
  const took = performance.now() - killed
  expect(term.token).toBeGreaterThan(BigInt(String(elected.token)))
  expect(took).toBeGreaterThan(grace)
  expect(took).toBeLessThan(ttl / 3)
  expect(candidate.isLeader).toBe(true)
  await candidate.resign()
})
