// Names of schemas and roles: quoted wherever they come in, or refused. What was not named stays as it is.
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { migrate } from '../../src/database/migrate.ts'
import { migrationStatus } from '../../src/database/migration-status.ts'
import { latestVersion } from '../../src/database/migrations/catalog.ts'
import { migrationSql } from '../../src/database/migrations/script.ts'
import { BadOptionError, Fencepost } from '../../src/index.ts'
import { seed } from '../model/seed.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { Canary } from './support/canary.ts'
import { hostileText, impossibleText } from './support/hostile-text.ts'

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

// The server takes it for the schema of whoever is logged in, whatever quotes are around it.
test('a schema that no search_path can name is refused, and the one of the user’s name stays empty', async () => {
  const [row] = await db.query<{ name: string }>('select current_user as name')
  const own = pg.escapeIdentifier(row?.name ?? '')
  await db.query(`create schema if not exists ${own}`)
  await expect(migrate({ connection: db.url, schema: '$user' })).rejects.toThrow(BadOptionError)
  expect(() => migrationSql({ schema: '$user' })).toThrow(BadOptionError)
  expect(() => new Fencepost({ connectionString: db.url, schema: '$user' })).toThrow(BadOptionError)
  expect(await db.query(`select from pg_class where relnamespace = $1::regnamespace`, [own])).toEqual([])
  await db.query(`drop schema ${own}`)
})

test('a name with what the database cannot keep is refused, and not kept as another', async () => {
  const property = fc.asyncProperty(impossibleText, async text => {
    const name = text.slice(0, 15)
    if (!/\0|\p{Surrogate}/u.test(name)) return
    await expect(migrate({ connection: db.url, schema: name })).rejects.toThrow(BadOptionError)
    expect(() => migrationSql({ schema: name })).toThrow(BadOptionError)
    for (const grants of [{ grant: [name] }, { grantOperator: [`${db.name}_bystander`, name] }]) {
      await expect(migrate({ connection: db.url, ...grants })).rejects.toThrow(BadOptionError)
    }
  })
  await fc.assert(property, { seed, numRuns: 30 })
  await canary.expectAlive()
})

describe('roles', () => {
  const roles: string[] = []
  afterEach(async () => {
    for (const role of roles.splice(0).map(name => pg.escapeIdentifier(name))) {
      await db.query(`drop owned by ${role}; drop role ${role}`)
    }
  })

  async function create(name: string): Promise<string> {
    await db.query(`create role ${pg.escapeIdentifier(name)}`)
    roles.push(name)
    return name
  }

  const may = async () =>
    (
      await db.query<{ name: string }>(
        `select rolname as name from pg_roles
          where not rolsuper and has_schema_privilege(oid, 'fencepost', 'usage') and rolname !~ '^pg_' order by 1`,
      )
    ).map(({ name }) => name)

  test('by any name: those that were named and no others', async () => {
    // Told apart from those of other tests by what no drawn text has.
    const name = hostileText(30).map(text => `${randomUUID().slice(0, 8)} ${text}`)
    const property = fc.asyncProperty(name, fc.constantFrom('grant', 'grantOperator'), async (role, how) => {
      await create(`${role}"`)
      await create(role.slice(0, -1) || 'x')
      await create(role)
      await migrate({ connection: db.url, [how]: [role] })
      expect(await may()).toEqual([role])
      await db.query(`drop schema fencepost cascade`)
      await canary.expectAlive()
    })
    await fc.assert(property, { seed, numRuns: 8, interruptAfterTimeLimit: 30_000 })
  }, 60_000)

  test('longer than the server’s names are: refused, not granted to another that begins alike', async () => {
    const long = await create(`${randomUUID()}${'x'.repeat(27)}`)
    expect(long).toHaveLength(63)
    for (const grants of [
      { grant: [`${long}y`] },
      { grantOperator: [`${long}y`] },
      { grant: [`${long.slice(1)}ü`] },
    ]) {
      await expect(migrate({ connection: db.url, ...grants })).rejects.toThrow(BadOptionError)
    }
    await migrate({ connection: db.url })
    expect(await may()).toEqual([])
    await migrate({ connection: db.url, grant: [long] })
    expect(await may()).toEqual([long])
  })

  test.each([['app'], [['']], [[5]], [[null]], [{ 0: 'app', length: 1 }]])('%j are none', async grant => {
    for (const name of ['grant', 'grantOperator']) {
      await expect(migrate({ connection: db.url, [name]: grant as never })).rejects.toThrow(BadOptionError)
    }
    await canary.expectAlive()
  })
})
