// The same through the command: what the shell hands over is a key, a reason or a name, and nothing else.
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { migrationStatus } from '../../src/database/migration-status.ts'
import { latestVersion } from '../../src/database/migrations/catalog.ts'
import { Fencepost } from '../../src/index.ts'
import { fencepost } from '../cli/fencepost.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { Canary } from './support/canary.ts'
import { inSchema } from './support/sql.ts'

let db: TestDatabase
let canary: Canary
let holder: Fencepost
beforeAll(async () => {
  db = await createDatabase()
  canary = await Canary.plant(db)
  holder = new Fencepost({ pool: db.pool(), schema: db.schema })
})
afterAll(async () => {
  await holder.close()
  await canary.uproot()
  await db.drop()
})

const run = (...args: string[]) => fencepost(args, { DATABASE_URL: db.url })

const texts = [
  `'); drop table public.canary; -- "$$\\`,
  '$1 %s {"a":1} \\u0000 `id` $(id) __proto__',
  '--now',
  'a\nb\u2028\u202e 語 😀',
]

test.each(texts)('inspect and release take %j for the key and the reason', async text => {
  const lock = await holder.acquire(text, { label: text, metadata: { [text]: text } })
  const seen = await run('inspect', '--schema', db.schema, '--json', '--', text)
  expect(seen).toMatchObject({ code: 0, errors: '' })
  expect(JSON.parse(seen.out)).toMatchObject({
    key: text,
    held: [{ key: text, label: text, metadata: { [text]: text }, token: String(lock.token) }],
  })
  const taken = await run('release', '--schema', db.schema, '--json', `--reason=${text}`, '--now', '--', text)
  expect(taken).toMatchObject({ code: 0, errors: '' })
  expect(JSON.parse(taken.out)).toMatchObject({ key: text, outcome: 'released', token: String(lock.token) })
  const events = await db.query(inSchema(db, 'select key, reason from $schema.events where token = $1'), [
    String(lock.token),
  ])
  expect(events).toEqual([{ key: text, reason: text }])
  await lock.release()
  await canary.expectAlive()
})

test.each(texts.filter(text => !text.startsWith('-')))(
  'run takes %j for the key, and for an argument',
  async text => {
    const lock = await holder.acquire(text)
    // Its own argument comes through as it is, once the key is free.
    const script = 'process.stdout.write(JSON.stringify([process.env.FENCEPOST_KEY, process.argv[1]]))'
    const running = run('run', text, '--schema', db.schema, '--', process.execPath, '-e', script, text)
    await until(async () => (await holder.query({ key: text })).pending.length === 1, { within: 20_000 })
    expect((await holder.query()).pending).toMatchObject([{ key: text }])
    await lock.release()
    const ran = await running
    expect(ran).toMatchObject({ code: 0 })
    expect(JSON.parse(ran.out)).toEqual([text, text])
    expect(await holder.query()).toEqual({ held: [], pending: [] })
    await canary.expectAlive()
  },
)

test('migrate takes what it is given for the names of a schema and of roles', async () => {
  const schema = `"; drop table public.canary; -- '$$\\`
  const role = `${db.name} '; "$$\\`
  const quoted = pg.escapeIdentifier(role)
  await db.query(`create role ${quoted}`)
  try {
    const ran = await run('migrate', '--schema', schema, '--grant', role, '--json')
    expect(ran.code, ran.errors).toBe(0)
    expect(JSON.parse(ran.out)).toMatchObject({ schema, grant: [role], version: latestVersion })
    await canary.expectAlive([schema])
    expect(await migrationStatus({ connection: db.url, schema })).toMatchObject({
      version: latestVersion,
      drift: [],
    })
    const [may] = await db.query('select has_schema_privilege($1, $2::regnamespace, $3) as usage', [
      role,
      pg.escapeIdentifier(schema),
      'usage',
    ])
    expect(may).toEqual({ usage: true })
    // The SQL that it prints is the same, for psql and its like.
    const printed = await run(
      'migrate',
      '--schema',
      schema,
      '--sql',
      '--from',
      String(latestVersion),
      '--to',
      '0',
    )
    expect(printed).toMatchObject({ code: 0, errors: '' })
    await db.query(printed.out)
  } finally {
    await db.query(`drop owned by ${quoted}; drop role ${quoted}`)
    await db.query(`drop schema if exists ${pg.escapeIdentifier(schema)} cascade`)
  }
  await canary.expectAlive()
})

test('names that cannot be are wrong usage', async () => {
  for (const args of [
    ['migrate', '--schema', '$user'],
    ['migrate', '--schema', db.schema, '--grant', 'x'.repeat(64)],
    ['status', '--schema', 'x'.repeat(64)],
    ['release', '', '--reason', 'why', '--schema', db.schema],
    ['release', 'k', '--reason', ' ', '--schema', db.schema],
  ]) {
    const ran = await run(...args)
    expect(ran, args.join(' ')).toMatchObject({ code: 64, out: '' })
    expect(ran.errors).toMatch(/want|not empty/)
  }
  await canary.expectAlive()
})
