// A leader whose event loop is blocked for three ttls, by what the database is sent.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { Fencepost, type Term } from '../../src/index.ts'
import { inSchema } from '../forgery/support/sql.ts'
import { Child } from '../support/child.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { type PostgresProxy, startProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'

const script = new URL('./blocker.mjs', import.meta.url)
/** Not the least, a second: of that a busy machine uses up more than is left between two heartbeats. */
const ttl = 1_500

let db: TestDatabase
let proxy: PostgresProxy
let other: Fencepost
/** All that the leader's process has sent, as text. */
let sent: string[]
beforeAll(async () => {
  db = await createDatabase()
  await db.query('create table written (number serial, what text not null, token bigint not null)')
})
beforeEach(async () => {
  await db.query('truncate written')
  proxy = await startProxy(db.url)
  sent = []
  // It reads each request, and takes none.
  void proxy.dropRequest(request => {
    sent.push(request)
    return false
  })
  other = new Fencepost({ pool: db.pool(), schema: db.schema })
})
afterEach(async () => {
  await other.close()
  await proxy.close()
})
afterAll(() => db.drop())

function blocker(options: { watchdog?: boolean } = {}): Child {
  const leader = { connectionString: proxy.url(db.url), schema: db.schema, ttl, ...options }
  return new Child(script, { args: [JSON.stringify(leader)] })
}

/** Blocks a leader, and answers the term of the next one, and how much had been sent before that was elected. */
async function succeed(leader: Child, inside: boolean): Promise<{ term: Term; before: number }> {
  const next = other.election('e', { ttl: '10s' }).campaign()
  await until(async () => (await db.query(inSchema(db, 'select from $schema.waiters'))).length === 1)
  leader.send('block', { ms: 3 * ttl, inside })
  await leader.message('blocking')
  const term = await next
  const before = sent.length
  await term.transaction(client =>
    client.query('insert into written (what, token) values ($1, $2)', ['next', term.token]),
  )
  return { term, before }
}

const written = () => db.query('select what, token from written order by number')

test('between two transactions: nothing is sent through its handle any more', async () => {
  await using leader = blocker()
  const { token } = await leader.message('elected')
  // What is looked for below is there before.
  expect(sent.some(request => request.includes('insert into written'))).toBe(true)
  expect(sent.some(request => request.includes(String(token)))).toBe(true)
  const { term, before } = await succeed(leader, false)
  expect(leader.said.map(({ name }) => name)).not.toContain('used')

  expect(await leader.message('used')).toMatchObject({
    outcomes: { transaction: 'lost', guard: 'lost' },
    isLeader: false,
    aborted: true,
    // The other, where a heartbeat was on its way just then.
    resigned: expect.stringMatching(/^(expired|unreachable)$/),
  })
  // That its session is over is told to the database.
  await until(() => sent.slice(before).some(request => request.includes('close_session')))
  const after = sent.slice(before).filter(request => !request.includes('close_session'))
  expect(
    after.filter(request =>
      ['written', String(token), 'begin', 'heartbeat'].some(part => request.includes(part)),
    ),
  ).toEqual([])
  expect(await written()).toEqual([
    { what: 'before', token },
    { what: 'next', token: String(term.token) },
  ])
})

test('inside a transaction: that is over, and nothing of it is written', async () => {
  await using leader = blocker()
  const { token } = await leader.message('elected')
  const { term } = await succeed(leader, true)
  const { outcome, isLeader } = await leader.message('used')
  expect(isLeader).toBe(false)
  expect(outcome).not.toBe('done')
  expect(await written()).toEqual([
    { what: 'before', token },
    { what: 'next', token: String(term.token) },
  ])
})

test('with a watchdog its process is gone, and one line says why', async () => {
  await using leader = blocker({ watchdog: true })
  const { token } = await leader.message('elected')
  const { term, before } = await succeed(leader, true)
  expect(await leader.exit).toBe('SIGKILL')
  expect(leader.log).toEqual([
    expect.stringMatching(/^fencepost: watchdog: a lock was lost \d+ ms ago.* killing it$/),
  ])
  expect(leader.said.map(({ name }) => name)).not.toContain('used')
  expect(sent.slice(before)).toEqual([])
  expect(await written()).toEqual([
    { what: 'before', token },
    { what: 'next', token: String(term.token) },
  ])
})
