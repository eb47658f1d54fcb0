import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { migrate } from '../../src/database/migrate.ts'
import { Fencepost, ReadOnlyServerError } from '../../src/index.ts'
import type { PostgresServer } from '../../src/testing/server.ts'
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
  await client.close()
  await pool.end()
})
