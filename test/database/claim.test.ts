// Whether a connection is ours alone: behind a pooler a notification may arrive all the same, by chance.
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Connection } from '../../src/database/connection.ts'
import type { ClientConstructor } from '../../src/database/ports.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { GreetedByAnother } from '../support/greeted.ts'
import { twist } from '../support/twist.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await createDatabase()
})
afterAll(() => db.drop())

/** What is set on a connection whose defaults are others, after it was claimed. */
async function claimed(Client: ClientConstructor, connectionString: string, options?: string) {
  const connection = await Connection.open(Client, { connectionString, options }, db.schema, 5_000)
  try {
    const isOurs = await connection.claim(5_000)
    const [row] = await connection.query({ text: 'show statement_timeout', values: [] }, 5_000)
    return { isOurs, direct: connection.direct, timeout: row?.[0] }
  } finally {
    await connection.end()
  }
}

const anyClient = (Client: unknown) => Client as ClientConstructor

test('where the process that greeted it answers, the settings are ours', async () => {
  expect(await claimed(anyClient(pg.Client), db.url, '-c statement_timeout=7s')).toEqual({
    isOurs: true,
    direct: true,
    timeout: '0',
  })
})

test('where another one does, nothing is set', async () => {
  expect(await claimed(anyClient(GreetedByAnother), db.url, '-c statement_timeout=7s')).toEqual({
    isOurs: false,
    direct: false,
    timeout: '7s',
  })
})

test.runIf(twist.name === 'pgbouncer')('so it is behind PgBouncer', async () => {
  expect(await claimed(anyClient(pg.Client), db.twistedUrl)).toMatchObject({ isOurs: false, direct: false })
})
