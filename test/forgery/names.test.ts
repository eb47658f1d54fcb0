// Names of schemas: quoted wherever they come in. What was not named stays as it is.
import fc from 'fast-check'
import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { migrate } from '../../src/database/migrate.ts'
import { migrationStatus } from '../../src/database/migration-status.ts'
import { latestVersion } from '../../src/database/migrations/catalog.ts'
import { migrationSql } from '../../src/database/migrations/script.ts'
import { Fencepost } from '../../src/index.ts'
import { seed } from '../model/seed.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { Canary } from './support/canary.ts'
import { hostileText } from './support/hostile-text.ts'

let db: TestDatabase
let canary: Canary
beforeEach(async () => {
  db = await createDatabase({ migrate: false })
  canary = await Canary.plant(db)
})
afterEach(async () => {
  await canary.uproot()
  await db.drop()
})

/** Takes, waits, forces and releases over both roads, then takes the schema down again. */
async function live(schema: string, how: 'migrate' | 'migrationSql'): Promise<void> {
  if (how === 'migrate') await migrate({ connection: db.url, schema })
  else await db.query(migrationSql({ schema }))
  await canary.expectAlive([schema])
  const pool = db.pool({ max: 4 })
  const query = (text: string, values?: unknown[]) => pool.query(text, values)
  const clients = [new Fencepost({ pool, schema }), new Fencepost({ pool: { query }, schema })]
  try {
    for (const [holder, waiter] of [clients, clients.toReversed()] as [Fencepost, Fencepost][]) {
      const lock = await holder.acquire('k', { label: 'l', metadata: { a: 1 } })
      await lock.renew()
      const waiting = waiter.acquire('k')
      await until(async () => (await holder.query({ key: 'k' })).pending.length === 1)
      expect(await waiter.forceRelease('k', { reason: 'why', now: true })).toMatchObject({
        outcome: 'released',
      })
      const next = await waiting
      expect((await holder.query()).held).toMatchObject([{ key: 'k', token: next.token }])
      await next.release()
      await lock.release()
      expect(await holder.raiseBase({ reason: 'why' })).toBeGreaterThan(next.token)
      expect(await holder.health()).toMatchObject({ reached: true })
    }
  } finally {
    await Promise.all(clients.map(client => client.close({ timeout: 0 })))
  }
  expect(await migrationStatus({ connection: db.url, schema })).toMatchObject({
    version: latestVersion,
    drift: [],
  })
  await migrate({ connection: db.url, schema, direction: 'down', count: latestVersion })
  await db.query(`drop schema ${pg.escapeIdentifier(schema)} cascade`)
  await canary.expectAlive()
}

const names = [
  'a$$b',
  '$$; drop table public.canary; $$',
  '$sql$ $do$ $body$ $migration$ $migration2$',
  '"; drop table public.canary; --',
  "'; drop table public.canary; --\n",
  '%I%1$s%%\\',
  '{name} :name $1',
  '__proto__',
  ', pg_catalog',
]
test.each(names)('a schema by the name of %j', async schema => await live(schema, 'migrate'))
test.each(names.slice(0, 5))(
  'a schema by the name of %j, by SQL',
  async schema => await live(schema, 'migrationSql'),
)

test('a schema by any name', async () => {
  const name = hostileText(63).filter(text => !text.startsWith('pg_') && text !== '$user')
  const property = fc.asyncProperty(name, fc.constantFrom('migrate', 'migrationSql'), live)
  await fc.assert(property, { seed, numRuns: 8, interruptAfterTimeLimit: 30_000 })
}, 60_000)
