// A write that is held back on the network past the lock's ttl: for each way of guarding, what lands is either before
// all that the next holder reads, or refused.
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Lock, LostError, type TransactionClient, TransactionTimeoutError } from '../../src/index.ts'
import { type PostgresProxy, startProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'
import { Setting } from './support/setting.ts'

let setting: Setting
let schema: string
beforeAll(async () => {
  setting = await Setting.create()
  schema = `"${setting.db.schema.replaceAll('"', '""')}"`
  await setting.db.query('create table counter as select 0 as value')
  await setting.db.query('create table fenced_counter as select 0 as value, 0::bigint as token')
  await setting.db.query(`select ${schema}.fence_table('fenced_counter', 'token', $1)`, [`'counter'`])
})
afterAll(() => setting.db.drop())

interface Way {
  readonly name: string
  readonly table: 'counter' | 'fenced_counter'
  /** The first statement of the transaction. */
  enter(trx: pg.ClientBase, lock: Lock): Promise<unknown>
  /** With what an entry is refused that comes too late. */
  readonly late: object
  /** The transaction is ended when the session's time is up. */
  readonly isBounded?: true
}

const ways: Way[] = [
  {
    name: 'lock.guard',
    table: 'counter',
    enter: (trx, lock) => lock.guard(trx),
    late: { code: 'lost' },
    isBounded: true,
  },
  {
    name: 'assert_held',
    table: 'counter',
    enter: (trx, lock) => trx.query(`select ${schema}.assert_held($1, $2)`, [lock.key, tokens.get(lock)]),
    late: { code: 'FP003' },
  },
  {
    name: 'fence on entry',
    table: 'counter',
    enter: (trx, lock) => trx.query(`select ${schema}.fence('counter', $1)`, [tokens.get(lock)]),
    late: { code: 'FP002' },
  },
  {
    name: 'a fenced table',
    table: 'fenced_counter',
    enter: (trx, lock) => trx.query(`select ${schema}.present('counter', $1)`, [tokens.get(lock)]),
    late: { code: 'FP002' },
  },
]

/** Kept from the grant on: a handle that is lost does not tell its token any more. */
const tokens = new WeakMap<Lock, string>()
let proxy: PostgresProxy
let slow: pg.Client
let next: pg.Client
let key: string
let lock: Lock

beforeEach(async () => {
  proxy = await startProxy(setting.db.url)
  // All of the slow process goes through the proxy, its heartbeats too.
  const connectionString = proxy.url(setting.db.url)
  slow = new pg.Client({ connectionString })
  next = new pg.Client({ connectionString: setting.db.url })
  slow.on('error', () => {})
  await Promise.all([slow.connect(), next.connect()])
  key = setting.key()
  lock = await acquire({ connectionString, pool: undefined, ttl: '1s' })
})
afterEach(async () => {
  proxy.release()
  await Promise.all([slow.end().catch(() => {}), next.end()])
  await setting.clear()
  await proxy.close()
})

async function acquire(options: Parameters<Setting['fencepost']>[0]): Promise<Lock> {
  const granted = await setting.fencepost(options).acquire(key, { timeout: '20s' })
  tokens.set(granted, String(granted.token))
  return granted
}

async function read(trx: pg.ClientBase, { table }: Way): Promise<number> {
  return (await trx.query(`select value from ${table}`)).rows[0].value
}

async function write(trx: pg.ClientBase, { table }: Way, value: number): Promise<void> {
  await trx.query(`update ${table} set value = $1`, [value])
}

/** The slow one has read, and its entry and its write are on their way; the next holder has entered. */
async function heldBack(way: Way) {
  const before = await read(next, way)
  await slow.query('begin')
  const seen = await read(slow, way)
  proxy.hold('toServer')
  const entered = way.enter(slow, lock).then(() => write(slow, way, seen + 1))
  entered.catch(() => {})
  const granted = await acquire({ poll: 20 })
  await next.query('begin')
  await way.enter(next, granted)
  return { before, granted, entered }
}

describe.each(ways)('$name', way => {
  test('the write is held back, not the entry: it lands before the next holder reads, or never', async () => {
    const before = await read(next, way)
    await slow.query('begin')
    await way.enter(slow, lock)
    const seen = await read(slow, way)
    proxy.hold('toServer')
    const landed = (async () => {
      await write(slow, way, seen + 1)
      await slow.query('commit')
      return true
    })().catch(() => false)
    const taken = (async () => {
      const granted = await acquire({ poll: 20 })
      await next.query('begin')
      await way.enter(next, granted)
      await write(next, way, (await read(next, way)) + 1)
      await next.query('commit')
    })()
    taken.catch(() => {})
    await until(async () => {
      const [session] = await setting.db.query<{ over: boolean }>(
        `select bool_or(died is not null or expires_at < clock_timestamp()) as over from ${schema}.sessions where ttl = '1s'`,
      )
      return session?.over === true
    })
    proxy.release()
    await taken
    if (!way.isBounded) expect(await landed).toBe(true)
    expect(await read(next, way)).toBe(before + ((await landed) ? 2 : 1))
  })

  test('the entry is held back until the next holder has read: refused, and nothing is lost', async () => {
    const { before, entered } = await heldBack(way)
    const value = await read(next, way)
    proxy.release()
    await write(next, way, value + 1)
    await next.query('commit')
    await expect(entered).rejects.toMatchObject(way.late)
    await slow.query('rollback')
    expect(await read(next, way)).toBe(before + 1)
  })

  test('the entry is held back until the next holder has written: refused', async () => {
    const { before, granted, entered } = await heldBack(way)
    await write(next, way, (await read(next, way)) + 1)
    await next.query('commit')
    await granted.release()
    proxy.release()
    await expect(entered).rejects.toMatchObject(way.late)
    await slow.query('rollback')
    expect(await read(next, way)).toBe(before + 1)
  })
})

test('a fenced table refuses a late write whose transaction presented nothing', async () => {
  const fenced = ways[3] as Way
  const before = await read(next, fenced)
  await slow.query('begin')
  proxy.hold('toServer')
  const written = write(slow, fenced, 99)
  written.catch(() => {})
  const granted = await acquire({ poll: 20 })
  await next.query('begin')
  await fenced.enter(next, granted)
  await write(next, fenced, before + 1)
  await next.query('commit')
  proxy.release()
  await expect(written).rejects.toMatchObject({ code: 'FP008' })
  await slow.query('rollback')
  expect(await read(next, fenced)).toBe(before + 1)
})

describe('lock.transaction', () => {
  const read = async (trx: TransactionClient) => (await trx.query('select value from counter')).rows[0].value
  const write = (trx: TransactionClient, value: number) => trx.query('update counter set value = $1', [value])
  const value = () => read(next)

  test.each(['write', 'commit'])('the %s is held back past the ttl: it never lands', async held => {
    const before = await value()
    const late = lock.transaction(async trx => {
      const seen = await read(trx)
      if (held === 'commit') await write(trx, seen + 1)
      proxy.hold('toServer')
      if (held === 'write') await write(trx, seen + 1)
    })
    late.catch(() => {})
    const granted = await acquire({ poll: 20 })
    await granted.transaction(async trx => await write(trx, (await read(trx)) + 1))
    proxy.release()
    await expect(late).rejects.toBeInstanceOf(TransactionTimeoutError)
    expect(await value()).toBe(before + 1)
  })

  test('the write is held back past the ttl, and nothing ends it: it lands before the next holder reads', async () => {
    const before = await value()
    const late = lock.transaction(async trx => {
      for (const name of [
        'transaction_timeout',
        'idle_in_transaction_session_timeout',
        'statement_timeout',
      ]) {
        await trx.query(`select set_config(name, '0', true) from pg_settings where name = $1`, [name])
      }
      const seen = await read(trx)
      proxy.hold('toServer')
      await write(trx, seen + 1)
    })
    const landed = late.then(
      () => true,
      () => false,
    )
    const taken = acquire({ poll: 20 }).then(granted =>
      granted.transaction(async trx => await write(trx, (await read(trx)) + 1)),
    )
    // The next one has buried the session, and met the pin.
    await until(async () => {
      const [row] = await setting.db.query<{ released: boolean }>(
        `select released from ${schema}.locks where key = $1`,
        [key],
      )
      return row?.released
    })
    proxy.release()
    await taken
    expect(await value()).toBe(before + ((await landed) ? 2 : 1))
  })

  test.each(['has read', 'has written'])(
    'its entry is held back until the next holder %s: refused, and nothing runs',
    async when => {
      const before = await value()
      // The message that begins it finds a connection that is open already.
      await lock.transaction(() => {})
      proxy.hold('toServer')
      let ran = false
      const late = lock.transaction(() => {
        ran = true
      })
      late.catch(() => {})
      const granted = await acquire({ poll: 20 })
      const expectRefused = async () => {
        proxy.release()
        await expect(late).rejects.toBeInstanceOf(LostError)
        expect(ran).toBe(false)
      }
      await granted.transaction(async trx => {
        const seen = await read(trx)
        if (when === 'has read') await expectRefused()
        await write(trx, seen + 1)
      })
      if (when === 'has written') await expectRefused()
      expect(await value()).toBe(before + 1)
    },
  )
})
