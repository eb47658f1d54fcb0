// What the network does to a guarded transaction: the reply to its commit lost, its commit held back or cut off.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { CommitUnknownError, UnreachableError, withAdvisoryLock } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { Setting } from './support/setting.ts'

let setting: Setting
let schema: string
beforeAll(async () => {
  setting = await Setting.create()
  schema = `"${setting.db.schema.replaceAll('"', '""')}"`
  await setting.db.query('create table counter as select 0 as value')
})
afterEach(() => setting.clear())
afterAll(() => setting.db.drop())

const isCommit = (request: string) => request.includes('; commit')
const counter = async () => (await setting.db.query<{ value: number }>('select value from counter'))[0]?.value
const read = async (trx: { query(text: string): Promise<{ rows: { value: number }[] }> }) =>
  (await trx.query('select value from counter')).rows[0]?.value ?? Number.NaN

test('the reply to the commit is lost: resolved as committed', async () => {
  const { fp, proxy, pool } = await setting.throughProxy()
  const lock = await fp.acquire(setting.key())
  const dropped = proxy.dropReplyAfter(isCommit)
  const done = lock.transaction(async trx => {
    await trx.query('insert into notes values ($1)', ['a'])
    return 'answer'
  })
  await dropped
  expect(await done).toBe('answer')
  expect(await setting.notes()).toEqual(['a'])
  expect(proxy.counters.repliesDropped).toBe(1)
  // The broken client is out of the pool.
  expect(pool.totalCount).toBe(0)
  await lock.transaction(trx => trx.query('insert into notes values ($1)', ['b']))
})

test('the reply is lost, and the commit was refused: resolved as aborted', async () => {
  await setting.db.query(
    'create table once (n int unique deferrable initially deferred); insert into once values (1)',
  )
  const { fp, proxy } = await setting.throughProxy()
  const lock = await fp.acquire(setting.key())
  const dropped = proxy.dropReplyAfter(isCommit)
  const done = lock.transaction(trx => trx.query('insert into once values (1)'))
  done.catch(() => {})
  await dropped
  await expect(done).rejects.toBeInstanceOf(UnreachableError)
  expect(await setting.db.query('select n from once')).toEqual([{ n: 1 }])
})

test('the commit itself is lost: resolved as aborted, and nothing is written', async () => {
  const { fp, proxy } = await setting.throughProxy()
  const lock = await fp.acquire(setting.key())
  const before = proxy.counters.bytes.toServer
  const done = lock.transaction(async trx => {
    await trx.query('insert into notes values ($1)', ['a'])
    proxy.hold('toServer')
    return proxy.counters.bytes.toServer
  })
  done.catch(() => {})
  await until(() => proxy.counters.bytes.toServer > before + 400)
  await until(
    async () =>
      (await setting.db.query(`select from pg_locks where relation = 'notes'::regclass`)).length > 0,
  )
  proxy.cut()
  await expect(done).rejects.toMatchObject({ code: 'unreachable', cause: expect.anything() })
  expect(await setting.notes()).toEqual([])
  expect(lock.state).toBe('held')
})

test('the server that could tell is another incarnation: unknown, and the error says what to look at', async () => {
  const { fp, proxy } = await setting.throughProxy()
  const key = setting.key()
  const lock = await fp.acquire(key)
  const dropped = proxy.dropReplyAfter(isCommit)
  const done = lock.transaction(async trx => {
    await setting.db.query(`update ${schema}.canary set boot = gen_random_uuid()`)
    const { rows } = await trx.query('select pg_current_xact_id()::text as id')
    await trx.query('insert into notes values ($1)', [rows[0].id])
  })
  done.catch(() => {})
  await dropped
  const [transaction] = await setting.notes()
  await expect(done).rejects.toBeInstanceOf(CommitUnknownError)
  await expect(done).rejects.toMatchObject({
    code: 'commit_unknown',
    key,
    transaction,
    cause: expect.anything(),
  })
})

test('the reply to the commit under an advisory lock is lost: unknown, with the id to look for', async () => {
  const { proxy, pool } = await setting.throughProxy()
  let id = ''
  const dropped = proxy.dropReplyAfter(request => request.includes('commit'))
  const done = withAdvisoryLock(pool, 'report', async trx => {
    const { rows } = await trx.query('select pg_current_xact_id()::text as id')
    id = rows[0].id
    await trx.query(`insert into notes values ('a')`)
  })
  done.catch(() => {})
  await dropped
  await expect(done).rejects.toBeInstanceOf(CommitUnknownError)
  await expect(done).rejects.toMatchObject({
    code: 'commit_unknown',
    key: 'report',
    transaction: id,
    cause: expect.anything(),
  })
  expect(await setting.notes()).toEqual(['a'])
  expect(pool.totalCount).toBe(0)
})

test('the write is held back past the ttl, before another reads and writes: it never lands', async () => {
  const { fp, proxy } = await setting.throughProxy({ ttl: 1_000 })
  const key = setting.key()
  const before = (await counter()) ?? 0
  const lock = await fp.acquire(key)
  const slow = lock.transaction(async trx => {
    const value = await read(trx)
    proxy.hold('toServer')
    await trx.query('update counter set value = $1', [value + 1])
  })
  slow.catch(() => {})
  await until(async () => (await setting.db.query(`select from ${schema}.locks`)).length === 1)
  await until(
    async () =>
      (await setting.db.query(`select from pg_locks where relation = 'counter'::regclass and granted`))
        .length > 0,
  )
  const other = setting.fencepost({ poll: 20 })
  const taken = other.withLock(key, { timeout: '10s' }, next =>
    next.transaction(async trx => {
      const value = await read(trx)
      await trx.query('update counter set value = $1', [value + 1])
    }),
  )
  await lock.release()
  await taken
  proxy.release()
  await expect(slow).rejects.toMatchObject({
    code: expect.stringMatching(/^(transaction_timeout|unreachable|57P01|57014|25P0[234])$/),
  })
  expect(await counter()).toBe(before + 1)
})

test('the commit is held back past the ttl: either it is the earlier one, or it never lands', async () => {
  const { fp, proxy } = await setting.throughProxy({ ttl: 1_000 })
  const key = setting.key()
  const before = (await counter()) ?? 0
  const lock = await fp.acquire(key)
  const slow = lock.transaction(async trx => {
    const value = await read(trx)
    await trx.query('update counter set value = $1', [value + 1])
    proxy.hold('toServer')
  })
  slow.catch(() => {})
  await until(
    async () =>
      (
        await setting.db.query(
          `select from pg_locks where relation = 'counter'::regclass and mode = 'RowExclusiveLock'`,
        )
      ).length > 0,
  )
  const taken = setting.fencepost({ poll: 20 }).withLock(key, { timeout: '10s' }, next =>
    next.transaction(async trx => {
      const value = await read(trx)
      await trx.query('update counter set value = $1', [value + 1])
    }),
  )
  await lock.release()
  await taken
  proxy.release()
  const [outcome] = await Promise.allSettled([slow])
  expect(await counter()).toBe(before + (outcome.status === 'fulfilled' ? 2 : 1))
  expect(outcome.status).toBe('rejected')
})
