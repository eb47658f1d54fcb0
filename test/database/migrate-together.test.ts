import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { migrate } from '../../src/database/migrate.ts'
import { latestVersion, migrations } from '../../src/database/migrations/catalog.ts'
import { migrationLockKey } from '../../src/database/migrations/schema-name.ts'
import { UnreachableError } from '../../src/errors.ts'
import { Child } from '../support/child.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { onClient } from './on-client.ts'

let db: TestDatabase
beforeEach(async () => {
  db = await createDatabase({ migrate: false })
})
afterEach(() => db.drop())

const names = migrations.map(({ name }) => name)

test('twenty processes at once all succeed, and everything is applied once', {
  timeout: 120_000,
}, async () => {
  const script = new URL('migrate-child.mjs', import.meta.url)
  const children = Array.from({ length: 20 }, () => new Child(script, { args: [db.twistedUrl, db.schema] }))
  await Promise.all(children.map(child => child.message('ready', { within: 60_000 })))
  for (const child of children) child.send('go')
  const results = await Promise.all(children.map(child => child.message('migrated', { within: 60_000 })))
  await Promise.all(children.map(child => child.kill()))

  expect(results.map(({ version }) => version)).toEqual(Array(20).fill(latestVersion))
  expect(results.flatMap(({ applied }) => applied)).toEqual(names)
  const ledger = await db.query(`select name from ${pg.escapeIdentifier(db.schema)}.migrations order by id`)
  expect(ledger.map(({ name }) => name)).toEqual(names)
})

test('a schema that another program is creating at this moment is taken as it comes', async () => {
  await onClient(db, async other => {
    await other.query(`begin; create schema ${pg.escapeIdentifier(db.schema)}`)
    const migrating = migrate({ connection: db.twistedUrl, schema: db.schema })
    await until(() => oneWaitsForALock(), { what: 'migrate meets the other program' })
    await other.query('commit')
    expect((await migrating).applied).toEqual(names)
  })
})

async function oneWaitsForALock(): Promise<boolean> {
  const waiting = await db.query(
    `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return waiting.length === 1
}

test('whose connection is ended in the middle is told, or tries again if it may wait', async () => {
  await onClient(db, async other => {
    await other.query(`begin; create schema ${pg.escapeIdentifier(db.schema)}`)
    for (const wait of [0, '20s']) {
      const migrating = migrate({ connection: db.twistedUrl, schema: db.schema, wait })
      const outcome = migrating.catch((error: unknown) => error)
      await until(() => oneWaitsForALock(), { what: 'migrate meets the other program' })
      await db.query(
        `select pg_terminate_backend(pid, 5000) from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`,
      )
      if (wait === 0) expect(await outcome).toBeInstanceOf(UnreachableError)
      else {
        await other.query('commit')
        expect(await outcome).toMatchObject({ applied: names })
      }
    }
  })
})

test('who waits for another migration says so, and holds no snapshot in the server', async () => {
  await onClient(db, async other => {
    await other.query('begin')
    await other.query('select pg_advisory_xact_lock($1)', [migrationLockKey(db.schema)])
    const lines: string[] = []
    const migrating = migrate({ connection: db.twistedUrl, schema: db.schema, log: line => lines.push(line) })
    await until(() => lines.length > 0, { what: 'migrate says that it waits' })
    await until(async () => (await snapshots(other)) === 0, { what: 'nobody holds a snapshot' })
    await other.query('commit')
    expect((await migrating).applied).toEqual(names)
    expect(lines[0]).toContain('waiting for another migration')
  })
})

async function snapshots(but: pg.PoolClient): Promise<number> {
  const { rows } = await but.query('select pg_backend_pid() as pid')
  const held = await db.query(
    `select from pg_stat_activity where datname = current_database() and backend_type = 'client backend'
        and pid not in (pg_backend_pid(), $1) and (backend_xmin is not null or wait_event_type = 'Lock')`,
    [rows[0].pid],
  )
  return held.length
}
