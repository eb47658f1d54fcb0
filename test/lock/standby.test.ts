import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { migrate } from '../../src/database/migrate.ts'
import {
  advisoryLock,
  Fencepost,
  ReadOnlyServerError,
  ReadOnlyTransactionError,
  withAdvisoryLock,
} from '../../src/index.ts'
import type { PostgresServer } from '../../src/testing/server.ts'
import { fencepost } from '../cli/fencepost.ts'
import { createDatabase } from '../support/database.ts'
import { startTestPostgres } from '../support/postgres.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startTestPostgres()
  await migrate({ connection: server.url })
  await server.stop()
  writeFileSync(join(server.dataDir, 'standby.signal'), '')
  await server.start()
})
afterAll(() => server.end())

test.each(['a pool', 'a query function'])('a standby, over %s: refused as read-only', async way => {
  const pool = new pg.Pool({ connectionString: server.url })
  const { rows } = await pool.query('select pg_is_in_recovery() as "isStandby"')
  expect(rows).toEqual([{ isStandby: true }])
  const query = { query: (text: string, values?: unknown[]) => pool.query(text, values) }
  const client = new Fencepost({ pool: way === 'a pool' ? pool : query })
  for (const ask of [() => client.acquire('k'), () => client.tryAcquire('k')]) {
    const [outcome] = await Promise.allSettled([ask()])
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'read_only' } })
    expect((outcome as PromiseRejectedResult).reason).toBeInstanceOf(ReadOnlyServerError)
  }
  const health = await client.health()
  expect(health).toMatchObject({ reached: false, incarnation: null, error: { code: 'read_only' } })
  expect(health.error?.message).toContain('this server is a standby')
  await client.close()
  await pool.end()
})

test('a standby that takes the place of the primary behind a query function', async () => {
  const db = await createDatabase({ schema: 'fencepost' })
  const [primary, standby] = [db.pool(), new pg.Pool({ connectionString: server.url })]
  let now = primary
  const client = new Fencepost({ pool: { query: (text, values) => now.query(text, values) } })
  for (const ask of [() => client.health().then(({ error }) => error), () => client.tokenBase()]) {
    now = primary
    expect(await ask()).not.toBeInstanceOf(Error)
    now = standby
    expect(await ask().catch(error => error)).toBeInstanceOf(ReadOnlyServerError)
  }
  await client.close()
  await standby.end()
  await db.drop()
})

test('fencepost health says so, and answers as for one that is away', async () => {
  const env = { DATABASE_URL: server.url }
  const { code, out } = await fencepost(['health'], env)
  expect(code).toBe(69)
  expect(out).toMatch(/reached +no\n.*standby \(read_only\)/)
  const asJson = await fencepost(['health', '--json'], env)
  expect(asJson.code).toBe(69)
  expect(JSON.parse(asJson.out)).toMatchObject({
    reached: false,
    error: { code: 'read_only' },
    incarnation: null,
  })
})

test.each([true, false, 20])('an advisory lock, with wait %s: refused', async wait => {
  const pool = new pg.Pool({ connectionString: server.url, max: 1 })
  await expect(withAdvisoryLock(pool, 'k', () => {}, { wait })).rejects.toBeInstanceOf(
    ReadOnlyTransactionError,
  )
  const client = await pool.connect()
  await client.query('begin')
  await expect(advisoryLock(client, 'k', { wait })).rejects.toBeInstanceOf(ReadOnlyTransactionError)
  await client.query('rollback')
  client.release()
  await pool.end()
})
