import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  NotHeldError,
  NotInTransactionError,
  NotMigratedError,
  ReadOnlyServerError,
  ReadOnlyTransactionError,
  StaleSnapshotError,
  TransactionAbortedError,
  WrongDatabaseError,
} from '../../src/index.ts'
import { createDatabase } from '../support/database.ts'
import { Setting } from './support/setting.ts'

let setting: Setting
let schema: string
beforeAll(async () => {
  setting = await Setting.create()
  schema = `"${setting.db.schema.replaceAll('"', '""')}"`
})
afterEach(() => setting.clear())
afterAll(() => setting.db.drop())

const expectUsable = async (trx: { query(text: string): Promise<{ rows: unknown[] }> }) =>
  expect((await trx.query('select 1 as one')).rows).toEqual([{ one: 1 }])

describe('guard', () => {
  test('outside of a transaction, on one connection and on a pool', async () => {
    const lock = await setting.fencepost().acquire(setting.key())
    const client = await setting.begun('select 1')
    await expect(lock.guard(client)).rejects.toBeInstanceOf(NotInTransactionError)
    await expect(lock.guard(setting.db.pool())).rejects.toBeInstanceOf(NotInTransactionError)
    await expectUsable(client)
  })

  test('in a transaction that has failed already', async () => {
    const lock = await setting.fencepost().acquire(setting.key())
    const trx = await setting.begun()
    await trx.query('select 1/0').catch(() => {})
    await expect(lock.guard(trx)).rejects.toBeInstanceOf(TransactionAbortedError)
  })

  test('in a read-only transaction, and in a database that is read-only for the role', async () => {
    const lock = await setting.fencepost().acquire(setting.key())
    const trx = await setting.begun('begin read only')
    await expect(lock.guard(trx)).rejects.toBeInstanceOf(ReadOnlyTransactionError)

    const { fp, pool } = await setting.throughProxy()
    const other = await fp.acquire(setting.key())
    pool.on('connect', client => void client.query('set default_transaction_read_only = on'))
    await expect(other.transaction(() => {})).rejects.toBeInstanceOf(ReadOnlyServerError)
  })

  test.each(['repeatable read', 'serializable'])(
    'on a snapshot from before the grant, at %s',
    async level => {
      const trx = await setting.begun(`begin isolation level ${level}`)
      await trx.query('select from notes')
      const lock = await setting.fencepost().acquire(setting.key())
      await expect(lock.guard(trx)).rejects.toBeInstanceOf(StaleSnapshotError)
      await expectUsable(trx)
      expect(lock.state).toBe('held')
    },
  )

  test('twice in one transaction, and with two locks: both stand', async () => {
    const fp = setting.fencepost()
    const [a, b] = [await fp.acquire(setting.key()), await fp.acquire(setting.key())]
    const trx = await setting.begun()
    const guards = [await a.guard(trx), await a.guard(trx), await b.guard(trx)]
    expect(new Set(guards.map(guard => guard.transaction)).size).toBe(1)
    for (const guard of guards) await guard.confirm()
    await trx.query('commit')
    expect(await guards[0]?.wasCommitted()).toBe(true)
  })

  test('on a lock that the database has given away: told, and the transaction is usable', async () => {
    const lock = await setting.fencepost().acquire(setting.key())
    await setting.db.query(`delete from ${schema}.locks`)
    const trx = await setting.begun()
    await expect(lock.guard(trx)).rejects.toMatchObject({ code: 'lost', reason: 'expired' })
    await expectUsable(trx)
    expect(lock.state).toBe('lost')
  })

  test('on a lock that is released while it is pinned: that is no loss', async () => {
    const lock = await setting.fencepost().acquire(setting.key())
    const trx = await setting.begun()
    const released = {
      query: async (text: string) => {
        await lock.release()
        return await trx.query(text)
      },
    }
    await expect(lock.guard(released)).rejects.toBeInstanceOf(NotHeldError)
    await expectUsable(trx)
  })

  test('in a copy of the database, whose rows are the same', async () => {
    const lock = await setting.fencepost().acquire(setting.key())
    await using other = Object.assign(await createDatabase(), {
      async [Symbol.asyncDispose]() {
        await other.drop()
      },
    })
    // A copy, as a restore or a template makes one: the cluster and the lock row as they are here, but for the database.
    const name = `"${other.schema.replaceAll('"', '""')}"`
    for (const table of ['cluster', 'canary', 'sessions', 'locks']) {
      const [row] = await setting.db.query<{ rows: string }>(
        `select json_agg(t)::text as rows from ${schema}.${table} t`,
      )
      await other.query(`delete from ${name}.${table}`)
      await other.query(
        `insert into ${name}.${table} select * from json_populate_recordset(null::${name}.${table}, $1)`,
        [row?.rows],
      )
    }
    const client = await other.pool({ max: 1 }).connect()
    await client.query('begin')
    await expect(lock.guard(client)).rejects.toBeInstanceOf(WrongDatabaseError)
    await expectUsable(client)
    await client.query('rollback')
    client.release()
    expect(lock.state).toBe('held')
  })

  test('in another database, with a schema of the same name and without one', async () => {
    const lock = await setting.fencepost().acquire(setting.key())
    for (const migrate of [true, false]) {
      const other = await createDatabase({ migrate })
      // Test databases are made from one template, whose life they would share.
      const name = `"${other.schema.replaceAll('"', '""')}"`
      if (migrate) {
        await other.query(`with c as (update ${name}.cluster set boot = gen_random_uuid() returning boot)
          update ${name}.canary set boot = c.boot from c`)
      }
      const client = await other.pool({ max: 1 }).connect()
      await client.query('begin')
      const expected = migrate ? WrongDatabaseError : NotMigratedError
      await expect(lock.guard(client)).rejects.toBeInstanceOf(expected)
      if (migrate) await expectUsable(client)
      client.release(true)
      await other.drop()
    }
    expect(lock.state).toBe('held')
  })

  test('in a life of the server that nobody has entered: refused once, and transaction() tries again', async () => {
    const fp = setting.fencepost()
    const lock = await fp.acquire(setting.key())
    await setting.db.query(`update ${schema}.canary set boot = gen_random_uuid()`)
    const trx = await setting.begun()
    await expect(lock.guard(trx)).rejects.toBeInstanceOf(WrongDatabaseError)
    await expectUsable(trx)
    await trx.query('rollback')
    await trx.query('begin')
    await lock.guard(trx)
    await trx.query('commit')
    await setting.db.query(`update ${schema}.canary set boot = gen_random_uuid()`)
    await lock.transaction(inner => inner.query('insert into notes values ($1)', ['a']))
    expect(await setting.notes()).toEqual(['a'])
  })
})

describe('assert_held', () => {
  test('a token of another key, of an earlier grant, negative, null, or no number', async () => {
    const fp = setting.fencepost()
    const key = setting.key()
    const earlier = await fp.acquire(key)
    const old = earlier.token
    await earlier.release()
    const [lock, other] = [await fp.acquire(key), await fp.acquire(setting.key())]
    const query = (token: unknown) => setting.db.query(`select ${schema}.assert_held($1, $2)`, [key, token])
    for (const token of [other.token, old, lock.token + 1n]) {
      await expect(query(token)).rejects.toMatchObject({ code: 'FP003' })
    }
    for (const token of [-1, 0, null]) {
      await expect(query(token)).rejects.toMatchObject({ code: 'FP007' })
    }
    await expect(query('one')).rejects.toMatchObject({ code: '22P02' })
    await query(lock.token)
  })

  test('fence: no token', async () => {
    for (const token of [-1, 0, null]) {
      const asked = setting.db.query(`select ${schema}.fence('r', $1)`, [token])
      await expect(asked).rejects.toMatchObject({ code: 'FP007' })
    }
  })
})
