import { Kysely, PostgresDialect, sql } from 'kysely'
import type pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { advisoryLock, LostError, NotInTransactionError, NotMigratedError } from '../../src/index.ts'
import { guard, lockRow, queryable, transaction } from '../../src/kysely.ts'
import { Setting } from './support/setting.ts'

interface Tables {
  notes: { text: string }
  orders: { id: number; item: string | null; amount: number }
}

/** Kysely listens to no errors of the clients that it has taken from the pool; without a listener one ends the process. */
function kysely(pool: pg.Pool): Kysely<Tables> {
  pool.on('connect', client => client.on('error', () => {}))
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
}

let setting: Setting
let db: Kysely<Tables>
let schema: string
beforeAll(async () => {
  setting = await Setting.create()
  schema = `"${setting.db.schema.replaceAll('"', '""')}"`
  db = kysely(setting.db.pool({ max: 3 }))
  await setting.db.query('create table orders (id int primary key, item text, amount int)')
})
beforeEach(() => setting.db.query(`truncate orders; insert into orders values (1, 'chair', 1), (2, null, 1)`))
afterEach(() => setting.clear())
afterAll(() => setting.db.drop())

describe('guard and transaction', () => {
  test('a guard in a Kysely transaction', async () => {
    const lock = await setting.fencepost().acquire(setting.key())
    await db.transaction().execute(async trx => {
      const pin = await guard(lock, trx)
      await trx.insertInto('notes').values({ text: 'a' }).execute()
      await pin.confirm()
    })
    expect(await setting.notes()).toEqual(['a'])
    await expect(guard(lock, db as never)).rejects.toBeInstanceOf(NotInTransactionError)
  })

  test.each(['read committed', 'repeatable read', 'serializable'] as const)(
    'transaction at %s',
    async isolationLevel => {
      const lock = await setting.fencepost().acquire(setting.key())
      const level = await transaction(
        lock,
        db,
        async trx => {
          await trx.insertInto('notes').values({ text: 'a' }).execute()
          return (
            await sql<{ level: string }>`select current_setting('transaction_isolation') as level`.execute(
              trx,
            )
          ).rows[0]?.level
        },
        { isolationLevel },
      )
      expect(level).toBe(isolationLevel)
      expect(await setting.notes()).toEqual(['a'])
      const own = new Error('mine')
      const failing = transaction(lock, db, async trx => {
        await trx.insertInto('notes').values({ text: 'b' }).execute()
        throw own
      })
      await expect(failing).rejects.toBe(own)
      expect(await setting.notes()).toEqual(['a'])
      await setting.db.query(`delete from ${schema}.locks`)
      await expect(transaction(lock, db, () => {})).rejects.toBeInstanceOf(LostError)
    },
  )

  test('the reply to the commit is lost: resolved', async () => {
    const { fp, proxy, pool } = await setting.throughProxy()
    const through = kysely(pool)
    const lock = await fp.acquire(setting.key())
    const dropped = proxy.dropReplyAfter(request => /\bcommit\b/.test(request))
    const done = transaction(lock, through, async trx => {
      await trx.insertInto('notes').values({ text: 'a' }).execute()
      return 'answer'
    })
    await dropped
    expect(await done).toBe('answer')
    expect(await setting.notes()).toEqual(['a'])
  })

  test('the backend is ended before the commit: what the work threw is thrown', async () => {
    const lock = await setting.fencepost().acquire(setting.key())
    const own = new Error('mine')
    const ended = transaction(lock, db, async trx => {
      const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(trx)
      await setting.db.query('select pg_terminate_backend($1, 5000)', [rows[0]?.pid])
      throw own
    })
    await expect(ended).rejects.toBe(own)
  })
})

describe('lockRow', () => {
  test('answers the row, by any columns, and locks it', async () => {
    await db.transaction().execute(async trx => {
      expect(await lockRow(trx, 'orders', { id: 1 })).toEqual({ id: 1, item: 'chair', amount: 1 })
      expect(await lockRow(trx, 'orders', { id: 2, item: null })).toMatchObject({ id: 2 })
      expect(await lockRow(trx, 'orders', { id: 3 })).toBeUndefined()
      await db.transaction().execute(async other => {
        expect(await lockRow(other, 'orders', { id: 1 }, { ifLocked: 'skip' })).toBeUndefined()
      })
      const failing = db
        .transaction()
        .execute(other => lockRow(other, 'orders', { id: 1 }, { ifLocked: 'fail' }))
      await expect(failing).rejects.toMatchObject({ code: '55P03' })
    })
    await expect(lockRow(db as never, 'orders' as never, {})).rejects.toBeInstanceOf(NotInTransactionError)
  })

  const strengths = ['update', 'no key update', 'share', 'key share'] as const
  /** PostgreSQL's table of which row locks stand beside each other. */
  const beside: Record<string, string[]> = {
    update: [],
    'no key update': ['key share'],
    share: ['share', 'key share'],
    'key share': ['no key update', 'share', 'key share'],
  }
  test.each(strengths)('%s stands beside what it may', async strength => {
    await db.transaction().execute(async trx => {
      await lockRow(trx, 'orders', { id: 1 }, { strength })
      for (const other of strengths) {
        const found = await db
          .transaction()
          .execute(two => lockRow(two, 'orders', { id: 1 }, { strength: other, ifLocked: 'skip' }))
        expect(found !== undefined, other).toBe(beside[strength]?.includes(other))
      }
    })
  })
})

test('an advisory lock in a Kysely transaction', async () => {
  await db.transaction().execute(async trx => {
    expect(await advisoryLock(queryable(trx), 'k', { wait: false })).toBe(true)
    const other = await setting.begun()
    expect(await advisoryLock(other, 'k', { wait: false })).toBe(false)
    await expect(advisoryLock(other, 'k', { wait: 10, schema: 'nowhere' })).rejects.toBeInstanceOf(
      NotMigratedError,
    )
  })
  expect(() => queryable(db)).toThrow(NotInTransactionError)
})
