import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { createDatabase, type TestDatabase } from './database.ts'
import { type PostgresProxy, startProxy } from './proxy.ts'
import { until } from './until.ts'

let db: TestDatabase
let proxy: PostgresProxy
let client: pg.Client

beforeAll(async () => {
  db = await createDatabase({ migrate: false })
  await db.query('create table marks (mark text)')
})
afterAll(() => db.drop())

beforeEach(async () => {
  proxy = await startProxy(db.url)
  client = await connected()
})
afterEach(() => proxy.close())

async function connected(): Promise<pg.Client> {
  const made = new pg.Client({ connectionString: proxy.url(db.url), connectionTimeoutMillis: 2000 })
  made.on('error', () => {})
  await made.connect()
  return made
}

/** A query's state, without waiting for it. */
function watch(query: Promise<unknown>): { state: 'open' | 'answered' | 'failed'; code?: string } {
  const seen: ReturnType<typeof watch> = { state: 'open' }
  query.then(
    () => Object.assign(seen, { state: 'answered' }),
    error => Object.assign(seen, { state: 'failed', code: error.code }),
  )
  return seen
}

const mark = (text: string) => client.query('insert into marks values ($1)', [text])
const marked = async (text: string) =>
  (await db.query('select from marks where mark = $1', [text])).length > 0

test('passes bytes both ways and counts them', async () => {
  const { rows } = await client.query("select repeat('x', 100000) as long")
  expect(rows[0].long).toHaveLength(100_000)
  expect(proxy.counters.bytes.toClient).toBeGreaterThan(100_000)
  await client.end()
  await until(() => proxy.counters.open === 0)
  expect(proxy.counters).toMatchObject({ connections: 1, cut: 0 })
})

test('cut resets every connection', async () => {
  const sleeping = watch(client.query('select pg_sleep(60)'))
  await until(
    async () => (await db.query("select from pg_stat_activity where query like '%pg_sleep(60)'"))[0],
  )
  proxy.cut()
  await until(() => sleeping.state === 'failed')
  expect(sleeping.code).toBe('ECONNRESET')
  expect(proxy.counters.cut).toBe(1)
  await (await connected()).query('select 1')
})

test('hold keeps requests from the server until release', async () => {
  proxy.hold('toServer')
  const held = watch(mark('held request'))
  await expect(until(() => marked('held request'), { within: 200 })).rejects.toThrow('not reached')
  proxy.release()
  await until(() => held.state === 'answered')
  expect(await marked('held request')).toBe(true)
})

test('hold keeps replies from the client until release', async () => {
  proxy.hold('toClient')
  const held = watch(mark('held reply'))
  await until(() => marked('held reply'))
  expect(held.state).toBe('open')
  proxy.release()
  await until(() => held.state === 'answered')
})

test('a black hole loses bytes without a sign, and release resets who lost some', async () => {
  const whole = await connected()
  proxy.blackHole('toClient')
  const lost = watch(mark('lost reply'))
  await until(() => marked('lost reply'))
  expect(lost.state).toBe('open')
  proxy.release()
  await until(() => lost.state === 'failed')
  await whole.query('select 1')
})

test('a black hole swallows what was held', async () => {
  proxy.hold('toServer')
  const before = proxy.counters.bytes.toServer
  const lost = watch(mark('held, then lost'))
  await until(() => proxy.counters.bytes.toServer > before)
  proxy.blackHole()
  proxy.release()
  await until(() => lost.state === 'failed')
  expect(await marked('held, then lost')).toBe(false)
})

test('delay puts off each direction', async () => {
  proxy.delay(100)
  const began = performance.now()
  await client.query('select 1')
  expect(performance.now() - began).toBeGreaterThanOrEqual(199)
})

test('dropReplyAfter loses the reply of a commit that happened', async () => {
  const dropped = proxy.dropReplyAfter(request => request.includes('insert into marks'))
  await client.query('select 1')
  const lost = watch(mark('committed'))
  await dropped
  expect(await marked('committed')).toBe(true)
  await until(() => lost.state === 'failed')
  expect(proxy.counters.repliesDropped).toBe(1)
  client = await connected()
  await mark('the next one')
})

test('accept(false) refuses newcomers and leaves the others alone', async () => {
  await proxy.accept(false)
  await expect(connected()).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  await client.query('select 1')
  await proxy.accept(true)
  await (await connected()).query('select 1')
})
