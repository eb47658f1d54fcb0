// What a server's settings do, against what the operator has said of it; and a primary that turns read-only under a client.
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { migrate } from '../../src/database/migrate.ts'
import { Fencepost } from '../../src/index.ts'
import type { PostgresServer } from '../../src/testing/server.ts'
import { startTestPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

let server: PostgresServer
let pool: pg.Pool
const clients: Fencepost[] = []
const warnings: string[] = []
const warned = (warning: Error & { code?: string }) => warnings.push(String(warning.code))

beforeAll(async () => {
  server = await startTestPostgres()
  await migrate({ connection: server.url })
  pool = new pg.Pool({ connectionString: server.url, max: 2 })
})
beforeEach(() => {
  warnings.length = 0
  process.on('warning', warned)
})
afterEach(async () => {
  process.off('warning', warned)
  await set('synchronous_standby_names', '')
  await set('default_transaction_read_only', 'off')
  await asOperator(operator => operator.query("select fencepost.configure(replication => 'asynchronous')"))
  await Promise.all(clients.splice(0).map(client => client.close()))
})
afterAll(async () => {
  await pool.end()
  await server.end()
})

function client(way = 'a pool'): Fencepost {
  const query = { query: (text: string, values?: unknown[]) => pool.query(text, values) }
  const made = new Fencepost({ pool: way === 'a pool' ? pool : query, ttl: '20s' })
  clients.push(made)
  return made
}

/** For all connections, also those that are open; new ones have it by the time that this resolves. */
async function set(name: string, value: string): Promise<void> {
  await asOperator(async operator => {
    await operator.query(`alter system set ${name} = '${value}'`)
    await operator.query('select pg_reload_conf()')
  })
  await until(() =>
    asOperator(async operator => {
      const { rows } = await operator.query('select reset_val as value from pg_settings where name = $1', [
        name,
      ])
      return rows[0].value === value
    }),
  )
}

/** Whatever is set: it may write, and waits for no standby. */
async function asOperator<T>(work: (operator: pg.Client) => Promise<T>): Promise<T> {
  const operator = new pg.Client(server.url)
  await operator.connect()
  try {
    await operator.query('set default_transaction_read_only = off')
    await operator.query('set synchronous_commit = local')
    return await work(operator)
  } finally {
    await operator.end()
  }
}

test.each(['a pool', 'a query function'])(
  'synchronous by its word, and no standby is waited for: told once, over %s',
  async way => {
    await pool.query("select fencepost.configure(replication => 'synchronous')")
    const fp = client(way)
    await (await fp.acquire('k')).release()
    await fp.health()
    await until(() => warnings.includes('FENCEPOST_REPLICATION'))
    expect(warnings.filter(code => code === 'FENCEPOST_REPLICATION')).toHaveLength(1)
  },
)

test('not where a standby is named, nor where nothing was said', async () => {
  await (await client().acquire('k')).release()
  await pool.query("select fencepost.configure(replication => 'synchronous')")
  await set('synchronous_standby_names', 'somebody')
  // It only reads: a lock would wait for that standby.
  expect(await client().health()).toMatchObject({ reached: true })
  await new Promise(setImmediate)
  expect(warnings).toEqual([])
})

test('a primary that turns read-only: its connections are ended, what is held is kept, who asks is granted when it is over', async () => {
  const fp = client()
  const [lock, given] = [await fp.acquire('k'), await fp.acquire('given')]
  const backends = () =>
    asOperator(async operator => {
      const text = "select pid from pg_stat_activity where application_name like 'fencepost %'"
      return (await operator.query(text)).rows.map(({ pid }) => pid as number)
    })
  const before = await backends()
  await set('default_transaction_read_only', 'on')
  const failed = await until(() =>
    lock.renew().then(
      () => undefined,
      error => error,
    ),
  )
  expect(failed).toMatchObject({ code: 'unreachable' })
  expect(failed.message).toContain('read-only')
  expect(lock.state).toBe('degraded')
  const asking = fp.acquire('other')
  const giving = given.release()
  await until(async () => !(await backends()).some(pid => before.includes(pid)), { what: 'all are ended' })
  await set('default_transaction_read_only', 'off')
  // Held either way: its renewals may have failed so far.
  expect(['held', 'degraded']).toContain((await asking).state)
  await until(() => lock.state === 'held')
  expect(await giving).toBe('released')
})
