import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { PostgresServer } from '../../src/testing/server.ts'
import { createDatabase } from './database.ts'
import { childrenOf, pause, resume, startTestPostgres } from './postgres.ts'
import { major } from './settings.ts'
import { until } from './until.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startTestPostgres()
})
afterAll(() => server.end())

test('is of the major version under test', async () => {
  await using client = await connection()
  const { rows } = await client.query('show server_version')
  expect(rows[0].server_version.split('.')[0]).toBe(major)
})

test('stands still while paused, and goes on', async () => {
  await using client = await connection()
  pause(server)
  const paused = childrenOf(server.pid ?? 0)
  const answer = client.query('select 1 as one')
  let answered = false
  answer.then(() => {
    answered = true
  })
  await expect(until(() => answered, { within: 200 })).rejects.toThrow('not reached')
  resume(server)
  expect((await answer).rows).toEqual([{ one: 1 }])
  expect(paused.length).toBeGreaterThan(3)
})

test('can have databases of its own', async () => {
  const db = await createDatabase({ adminUrl: server.url, schema: randomUUID() })
  expect(await db.query(`select from "${db.schema}".sessions`)).toEqual([])
  expect([new URL(db.url).port, db.twistedUrl]).toEqual([String(server.port), db.url])
  await db.drop()
})

async function connection(): Promise<pg.Client & AsyncDisposable> {
  const client = new pg.Client(server.url)
  await client.connect()
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() })
}
