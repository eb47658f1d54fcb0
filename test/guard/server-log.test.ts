import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { advisoryLock, Fencepost } from '../../src/index.ts'
import { createDatabase } from '../support/database.ts'
import { startTestPostgres } from '../support/postgres.ts'

test('a correct program provokes no error in the server’s log', { timeout: 60_000 }, async () => {
  const server = await startTestPostgres()
  const db = await createDatabase({ adminUrl: server.url, schema: 'fencepost' })
  const pool = db.pool({ max: 4 })
  const fp = new Fencepost({ pool, ttl: '1s' })
  await db.query(`create table t (n int, token bigint)`)
  await db.query(`select fencepost.fence_table('t', 'token', $$'t'$$)`)
  const add = () =>
    fp.withLock('k', lock =>
      lock.transaction(async trx => {
        await trx.query('select fencepost.present($1, $2)', ['t', lock.token])
        await trx.query('insert into t values (1)')
      }),
    )
  await Promise.all(Array.from({ length: 20 }, add))

  const [a, b] = [await pool.connect(), await pool.connect()]
  await a.query('begin')
  await b.query('begin')
  await advisoryLock(a, 'x')
  expect(await advisoryLock(b, 'x', { wait: 30 })).toBe(false)
  expect(await advisoryLock(b, 'x', { wait: false })).toBe(false)
  await a.query('rollback')
  await b.query('rollback')

  const lock = await fp.acquire('k')
  await a.query('begin isolation level repeatable read')
  await (await lock.guard(a)).confirm()
  await a.query('commit')
  // Lost, and told so.
  await db.query('delete from fencepost.locks')
  await a.query('begin')
  await expect(lock.guard(a)).rejects.toMatchObject({ code: 'lost' })
  await a.query('commit')
  a.release()
  b.release()
  await fp.close()
  await db.drop()
  const log = readFileSync(server.logFile, 'utf8')
  expect(log.length).toBeGreaterThan(0)
  expect(log.split('\n').filter(line => /ERROR|FATAL|WARNING/.test(line))).toEqual([])
  await server.end()
})
