// onLost: 'exit' ends a process that goes on with what it has lost, and no other.
import { escapeIdentifier } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { exitCode } from '../../src/cli/exit-codes.ts'
import { Child } from '../support/child.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'

const script = new URL('./worker.mjs', import.meta.url)

let db: TestDatabase
beforeAll(async () => {
  db = await createDatabase()
})
afterAll(() => db.drop())

const lead = (options: { by?: 'lead' | 'campaign'; stubborn?: boolean }) =>
  new Child(script, {
    args: [JSON.stringify({ url: db.twistedUrl, schema: db.schema, ttl: '1500ms', by: 'lead', ...options })],
  })

/** What it says itself on stderr; a way of connecting has warnings of its own. */
const lastWords = (child: Child) => child.log.filter(line => line.startsWith('fencepost:'))

/** The database says that the leader's session is over. */
async function bury(): Promise<void> {
  await db.query(
    `update ${escapeIdentifier(db.schema)}.sessions set died = clock_timestamp(), generation = generation + 1
      where died is null`,
  )
}

describe.each(['lead', 'campaign'] as const)('by %s', by => {
  test('a term that is lost, and work that goes on: exit 76, and a line that says why', async () => {
    await using child = lead({ by, stubborn: true })
    await child.message('elected')
    await bury()
    expect(await child.exit).toBe(exitCode.lost)
    expect(child.said.map(({ name }) => name)).toEqual(['elected', 'told'])
    expect(lastWords(child)).toEqual([
      'fencepost: the leadership of "e" is lost (expired), and what ran under it has not ended: exit 76',
    ])
  })
})

test('work that ends when it is told to goes on as a candidate, and leads again', async () => {
  await using child = lead({})
  const first = await child.message('elected')
  await bury()
  expect(await child.message('told')).toMatchObject({ code: 'lost', reason: 'expired' })
  const second = await child.message('elected')
  expect(BigInt(String(second.token))).toBeGreaterThan(BigInt(String(first.token)))
  expect(lastWords(child)).toEqual([])
})

test('a resignation is no loss, however long the work takes to end', async () => {
  await using child = lead({ stubborn: true })
  await child.message('elected')
  child.send('resign')
  expect(await child.message('told')).toMatchObject({ code: 'not_held' })
  // A session that is renewed twice outlives every grace.
  const renewed = new Set<unknown>()
  await until(async () => {
    const [row] = await db.query(
      `select expires_at::text from ${escapeIdentifier(db.schema)}.sessions where died is null`,
    )
    return renewed.add(row?.expires_at).size > 2
  })
  child.send('end')
  expect(await child.message('resigned')).toMatchObject({ outcome: 'released' })
  await child.message('elected')
  expect(lastWords(child)).toEqual([])
})

test('a client that closes past work that does not end: exit 76', async () => {
  await using child = lead({ stubborn: true })
  await child.message('elected')
  child.send('close', { timeout: 100 })
  expect(await child.message('told')).toMatchObject({ code: 'lost', reason: 'shutdown' })
  expect(await child.exit).toBe(exitCode.lost)
  expect(child.log.join()).toContain('(shutdown)')
})
