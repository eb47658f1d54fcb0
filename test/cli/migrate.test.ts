import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { latestVersion, migrations } from '../../src/database/migrations/catalog.ts'
import { migrationSql } from '../../src/database/migrations/script.ts'
import { freePort } from '../../src/testing/port.ts'
import { openSession } from '../database/open-session.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { fencepost, type Ran } from './fencepost.ts'

const names = migrations.map(({ name }) => name)

let db: TestDatabase
beforeEach(async () => {
  db = await createDatabase({ migrate: false })
})
afterEach(() => db.drop())

/** Runs `fencepost migrate` on the test's database. */
function migrate(...args: string[]): Promise<Ran> {
  return fencepost(['migrate', '--schema', db.schema, ...args], { DATABASE_URL: db.twistedUrl })
}

test('applies what is pending, then nothing', async () => {
  const first = await migrate()
  expect(first).toMatchObject({ code: 0 })
  expect(first.errors).toBe(names.map(name => `apply ${name}\n`).join(''))
  expect(first.out).toBe(`schema ${db.schema}: version ${latestVersion}, ${names.length} applied\n`)
  expect(await migrate()).toEqual({
    code: 0,
    out: `schema ${db.schema}: version ${latestVersion}, 0 applied\n`,
    errors: '',
  })
})

test('--url goes before DATABASE_URL; --json is one line', async () => {
  const bad = { DATABASE_URL: `postgres://127.0.0.1:${await freePort()}/x` }
  const ran = await fencepost(['migrate', '--url', db.url, '--schema', db.schema, '--json'], bad)
  expect(ran.code).toBe(0)
  expect(JSON.parse(ran.out)).toMatchObject({ schema: db.schema, version: latestVersion, applied: names })
  expect(ran.out.trimEnd().split('\n')).toHaveLength(1)
})

test('--check says what is pending, what has drifted, and that all is well', async () => {
  const before = await migrate('--check')
  expect(before).toMatchObject({ code: 1, errors: '' })
  expect(before.out).toContain(`version 0 of ${latestVersion}`)
  for (const name of names) expect(before.out).toContain(`pending: ${name}\n`)

  await migrate()
  expect(await migrate('--check')).toMatchObject({
    code: 0,
    out: `schema ${db.schema}: version ${latestVersion} of ${latestVersion}, as shipped\n`,
  })
  await db.query(`drop function ${pg.escapeIdentifier(db.schema)}.schema_version()`)
  const after = await migrate('--check')
  expect(after).toMatchObject({ code: 1 })
  expect(after.out).toContain('missing: function schema_version()\n')
  const json = await migrate('--check', '--json')
  expect(json.code).toBe(1)
  expect(JSON.parse(json.out)).toMatchObject({ ok: false, drift: ['missing: function schema_version()'] })
})

test('--check says when the schema wants newer clients', async () => {
  await migrate()
  const cluster = `${pg.escapeIdentifier(db.schema)}.cluster`
  await db.query(`update ${cluster} set version = version + 1, compatible_from = version + 1`)
  const ran = await migrate('--check')
  expect(ran).toMatchObject({ code: 1 })
  expect(ran.out).toContain('incompatible')
})

test('--sql prints what applies it, whole or in part, up or down', async () => {
  const { out, code } = await fencepost(['migrate', '--sql', '--schema', db.schema])
  expect({ out, code }).toEqual({ out: migrationSql({ schema: db.schema }), code: 0 })
  await db.query(out)
  expect(await migrate('--check')).toMatchObject({ code: 0 })

  const down = await fencepost([
    'migrate',
    '--sql',
    '--schema',
    db.schema,
    '--from',
    `${latestVersion}`,
    '--to',
    '2',
  ])
  await db.query(down.out)
  const up = await fencepost(['migrate', '--sql', '--schema', db.schema, '--from', '2'])
  await db.query(up.out)
  expect(await migrate('--check')).toMatchObject({ code: 0 })
})

test('--grant, --grant-operator, --max-ttl', async () => {
  const roles = ['a', 'b', 'c'].map(end => `${db.name}_${end}`)
  for (const role of roles) await db.query(`create role ${role}`)
  const [a, b, c] = roles as [string, string, string]
  const ran = await migrate('--grant', a, '--grant', b, '--grant-operator', c, '--max-ttl', '120s')
  expect(ran).toMatchObject({ code: 0 })
  const schema = pg.escapeIdentifier(db.schema)
  const may = await db.query(
    `select role, has_function_privilege(role, p.oid, 'execute') as configure from unnest($1::name[]) role, pg_proc p
      where p.proname = 'configure' and has_schema_privilege(role, p.pronamespace, 'usage') order by 1`,
    [roles],
  )
  expect(may).toEqual([
    { role: a, configure: false },
    { role: b, configure: false },
    { role: c, configure: true },
  ])
  expect(await db.query(`select max_ttl = '2 min' as ok from ${schema}.cluster`)).toEqual([{ ok: true }])
})

test('--down reverts, and is refused while a session lives', async () => {
  await migrate()
  const close = await openSession(db)
  const refused = await migrate('--down', `${names.length}`)
  expect(refused).toMatchObject({ code: 1, out: '' })
  expect(refused.errors).toContain('sessions are alive')
  expect(refused.errors).toContain('hint: ')
  expect(refused.errors).not.toContain('    at ')
  await close()
  expect(await migrate('--down', `${names.length}`)).toMatchObject({
    code: 0,
    out: `schema ${db.schema}: version 0, ${names.length} reverted\n`,
  })
})

test('a database that cannot be reached is 69, after --wait', async () => {
  const url = `postgres://user:secret@127.0.0.1:${await freePort()}/x`
  const ran = await fencepost(['migrate', '--url', url])
  expect(ran).toMatchObject({ code: 69, out: '' })
  expect(ran.errors).toMatch(/^fencepost: cannot connect to the database: .*ECONNREFUSED.*\n$/)
  const waited = await fencepost(['migrate', '--url', url, '--wait', '300ms'])
  expect(waited).toMatchObject({ code: 69 })
  expect(waited.errors).toContain('trying again')
  expect(ran.errors + waited.errors).not.toContain('secret')
})
