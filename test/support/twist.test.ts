import type pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDatabase, type TestDatabase } from './database.ts'
import { major } from './settings.ts'
import { clientOptions, twist } from './twist.ts'
import { until } from './until.ts'

let db: TestDatabase
let pool: pg.Pool
beforeAll(async () => {
  db = await createDatabase({ migrate: false })
  pool = clientOptions(db).pool
})
afterAll(() => db.drop())

/** One setting, as a connection of the product finds it. */
const setting = async (name: string) => (await pool.query(`show ${name}`)).rows[0][name]

/** Whether a connection that was told to listen hears of news while it does nothing else. */
async function hears(): Promise<boolean> {
  const client = await pool.connect()
  const channels: string[] = []
  client.on('notification', ({ channel }) => channels.push(channel))
  await client.query('listen news')
  await db.query('notify news')
  const heard = until(() => channels.length > 0, { within: 500 })
  return await heard
    .then(
      () => true,
      () => false,
    )
    .finally(() => client.release(true))
}

test.skipIf(process.env.DATABASE_URL)('the server is of the major version under test', async () => {
  expect((await setting('server_version')).split('.')[0]).toBe(major)
})

test.runIf(twist.name === 'hostile')('hostile: every default is set against us', async () => {
  expect(await setting('statement_timeout')).toBe('1s')
  expect(await setting('lock_timeout')).toBe('1s')
  expect(await setting('idle_session_timeout')).toBe('1s')
  expect(await setting('idle_in_transaction_session_timeout')).toBe('1s')
  expect(await setting('default_transaction_isolation')).toBe('serializable')
  expect(await setting('synchronous_commit')).toBe('off')
  const { version } =
    (await db.query("select current_setting('server_version_num')::int as version"))[0] ?? {}
  if (version >= 170000) expect(await setting('transaction_timeout')).toBe('1s')
})

test.runIf(twist.name === 'pgbouncer')(
  'pgbouncer: a SET leaks to others, and notifications are lost',
  async () => {
    const [one, other] = await Promise.all([pool.connect(), pool.connect()])
    await one.query("set work_mem to '4321kB'")
    const { rows } = await other.query('show work_mem')
    one.release()
    other.release()
    expect(rows).toEqual([{ work_mem: '4321kB' }])
    expect(await hears()).toBe(false)
  },
)

test.runIf(twist.name !== 'pgbouncer')('notifications arrive', async () => {
  expect(await hears()).toBe(true)
})

test.runIf(twist.name === 'schema')('schema: its name needs quoting', () => {
  expect(twist.schema).toMatch(/["A-Z ]/)
})

test('the user of the product is the one that the twist names', async () => {
  const { rows } = await pool.query('select current_user as name')
  expect(rows[0].name.endsWith('_hostile')).toBe(twist.name === 'hostile')
})
