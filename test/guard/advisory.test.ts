import type pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  advisoryKey,
  advisoryLock,
  BadKeyError,
  LockTimeoutError,
  NotInTransactionError,
  TransactionAbortedError,
  withAdvisoryLock,
} from '../../src/index.ts'
import { until } from '../support/until.ts'
import { Setting } from './support/setting.ts'

let setting: Setting
let a: pg.PoolClient
let b: pg.PoolClient
beforeAll(async () => {
  setting = await Setting.create()
})
beforeEach(async () => {
  a = await setting.begun()
  b = await setting.begun()
})
afterEach(() => setting.clear())
afterAll(() => setting.db.drop())

const lock = (trx: pg.PoolClient, key: Parameters<typeof advisoryLock>[1], options = {}) =>
  advisoryLock(trx, key, { schema: setting.db.schema, ...options })
const blocked = async (trx: pg.PoolClient & { processID?: number }, since = 'clock_timestamp()') =>
  (
    await setting.db.query(`select from pg_locks where pid = $1 and not granted and waitstart < ${since}`, [
      trx.processID,
    ])
  ).length > 0

describe('the number of a text key', () => {
  test('is the documented one, for good', () => {
    expect(advisoryKey('invoice 7')).toBe(advisoryKey('invoice 7', 'fencepost'))
    expect(advisoryKey('invoice 7')).toBe(5874982396601295900n)
    expect(advisoryKey('invoice 7', 'other')).not.toBe(advisoryKey('invoice 7'))
    expect(() => advisoryKey('')).toThrow(BadKeyError)
  })

  test('can be had in SQL', async () => {
    for (const key of ['invoice 7', 'Müller €', '語'.repeat(300)]) {
      const [row] = await setting.db.query<{ number: string }>(
        `select ('x' || encode(substring(sha256('fencepost:advisory'::bytea || '\\x00' || convert_to($1, 'UTF8')
           || '\\x00' || convert_to($2, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint::text as number`,
        ['fencepost', key],
      )
      expect(BigInt(row?.number ?? 0)).toBe(advisoryKey(key))
    }
  })
})

describe.each([
  ['text', 'k', 'other'],
  ['a bigint', -123n, 123n],
  ['two numbers', [-1, 2 ** 31 - 1], [1, 2]],
] as const)('%s', (_, key, other) => {
  test('keeps others out until the transaction ends', async () => {
    expect(await lock(a, key)).toBe(true)
    expect(await lock(a, key, { wait: false })).toBe(true)
    expect(await lock(b, key, { wait: false })).toBe(false)
    expect(await lock(b, key, { wait: 30 })).toBe(false)
    expect(await lock(b, key, { wait: 30, shared: true })).toBe(false)
    expect(await lock(b, other, { wait: 30 })).toBe(true)
    const waiting = [lock(b, key, { wait: '10s' })]
    await until(() => blocked(b))
    await a.query('commit')
    expect(await Promise.all(waiting)).toEqual([true])
  })

  test('for ever, and shared', async () => {
    expect(await lock(a, key, { shared: true })).toBe(true)
    expect(await lock(b, key, { shared: true, wait: false })).toBe(true)
    expect(await lock(b, key, { wait: false })).toBe(false)
    const waiting = lock(b, key)
    await until(() => blocked(b))
    await a.query('rollback')
    expect(await waiting).toBe(true)
  })
})

test('numbers go through as they are', async () => {
  await a.query('select pg_advisory_xact_lock(123), pg_advisory_xact_lock(123, 456)')
  expect(await lock(b, 123n, { wait: false })).toBe(false)
  expect(await lock(b, [123, 456], { wait: false })).toBe(false)
})

test('after a wait that was too long the transaction is usable, and its lock_timeout what it was', async () => {
  await lock(a, 'k')
  await b.query(`set local lock_timeout = '7s'; insert into notes values ('kept')`)
  expect(await lock(b, 'k', { wait: 20 })).toBe(false)
  expect((await b.query('show lock_timeout')).rows).toEqual([{ lock_timeout: '7s' }])
  expect(await lock(b, 'other', { wait: 20 })).toBe(true)
  expect((await b.query('show lock_timeout')).rows).toEqual([{ lock_timeout: '7s' }])
  await b.query('commit')
  expect((await b.query('show lock_timeout')).rows).not.toEqual([{ lock_timeout: '7s' }])
  expect(await setting.notes()).toEqual(['kept'])
})

test.each([
  { key: 'k', shared: false },
  { key: [1, 2] as const, shared: true },
])('for ever is longer than the transaction’s lock_timeout, which is kept: %j', async ({ key, shared }) => {
  await lock(a, key)
  await b.query(`set local lock_timeout = '20ms'`)
  const waiting = lock(b, key, { shared })
  waiting.catch(() => {})
  await until(() => blocked(b, `clock_timestamp() - interval '100 ms'`))
  await a.query('commit')
  expect(await waiting).toBe(true)
  expect((await b.query('show lock_timeout')).rows).toEqual([{ lock_timeout: '20ms' }])
  await b.query('commit')
  expect((await b.query('show lock_timeout')).rows).not.toEqual([{ lock_timeout: '20ms' }])
})

test('granted in the moment in which the time is up: the answer is what is so', async () => {
  // The answer is compared with the server's own account, with the holder ending at about the same time.
  for (let round = 0; round < 40; round += 1) {
    await lock(a, 'k')
    const asked = lock(b, 'k', { wait: 12 })
    const ended = new Promise<void>(resolve => setTimeout(resolve, 8 + (round % 8))).then(() =>
      a.query('commit'),
    )
    const answer = await asked
    await ended
    const { rows } = await b.query(
      `select count(*)::int as held from pg_locks where locktype = 'advisory' and granted and pid = pg_backend_pid()`,
    )
    expect(rows[0].held).toBe(answer ? 1 : 0)
    await b.query('rollback; begin')
    await a.query('begin')
  }
})

test('rolled back to a savepoint from before: free again', async () => {
  await a.query('savepoint s')
  await lock(a, 'k', { wait: 20 })
  await a.query('rollback to s')
  expect(await lock(b, 'k', { wait: false })).toBe(true)
})

test.each([true, false, 20])(
  'outside of a transaction, with wait %s: refused, and nothing is held',
  async wait => {
    await a.query('commit')
    await expect(lock(a, 'k', { wait })).rejects.toBeInstanceOf(NotInTransactionError)
    await expect(
      advisoryLock(setting.db.pool(), 'k', { wait, schema: setting.db.schema }),
    ).rejects.toBeInstanceOf(NotInTransactionError)
    expect(await lock(b, 'k', { wait: false })).toBe(true)
  },
)

test('in a transaction that has failed', async () => {
  await a.query('select 1/0').catch(() => {})
  await expect(lock(a, 'k')).rejects.toBeInstanceOf(TransactionAbortedError)
})

test('a deadlock is the server’s to tell', async () => {
  await Promise.all([lock(a, 1n), lock(b, 2n)])
  const outcomes = await Promise.allSettled([lock(a, 2n), lock(b, 1n).finally(() => {})])
  const refused = outcomes.filter(each => each.status === 'rejected')
  expect(refused).toMatchObject([{ reason: { code: 'database', cause: { code: '40P01' } } }])
})

test.each([
  ['', 'bad_key'],
  [2n ** 63n, 'bad_key'],
  [1, 'bad_key'],
  [[1], 'bad_key'],
  [[1, 2 ** 31], 'bad_key'],
  [[1.5, 2], 'bad_key'],
])('no key: %s', async (key, code) => {
  await expect(lock(a, key as never)).rejects.toMatchObject({ code })
  await expect(lock(a, 'k', { wait: 'soon' })).rejects.toMatchObject({ code: 'bad_option' })
})

describe('withAdvisoryLock', () => {
  test('one at a time, and its writes are committed; what it throws is thrown', async () => {
    const pool = setting.db.pool({ max: 5 })
    let inside = 0
    const add = (n: number) =>
      withAdvisoryLock(pool, 'k', async trx => {
        inside += 1
        expect(inside).toBe(1)
        await trx.query('insert into notes values ($1)', [String(n)])
        inside -= 1
        return n
      })
    expect(await Promise.all([1, 2, 3, 4, 5].map(add))).toEqual([1, 2, 3, 4, 5])
    const own = new Error('mine')
    const failing = withAdvisoryLock(pool, 'k', async trx => {
      await trx.query(`insert into notes values ('never')`)
      throw own
    })
    await expect(failing).rejects.toBe(own)
    expect(await setting.notes()).toEqual(['1', '2', '3', '4', '5'])
    expect(pool.idleCount).toBe(pool.totalCount)
  })

  test('not free in time', async () => {
    const pool = setting.db.pool()
    await advisoryLock(a, 'k', { schema: setting.db.schema })
    const options = { wait: 20, schema: setting.db.schema }
    await expect(withAdvisoryLock(pool, 'k', () => {}, options)).rejects.toBeInstanceOf(LockTimeoutError)
    expect(pool.idleCount).toBe(pool.totalCount)
  })
})
