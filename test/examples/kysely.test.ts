import { Kysely, PostgresDialect, sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'

interface Tables {
  stock: { item: string; amount: number }
}

let db: TestDatabase
beforeEach(async () => {
  db = await createDatabase({ schema: 'fencepost' })
})
afterEach(() => db.drop())

test('an application on Kysely shares its pool of one connection, and its transactions are fenced', async () => {
  const pool = db.pool({ max: 1 })
  const kysely = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
  await using fp = new Fencepost({ pool })
  await kysely.schema.createTable('stock').addColumn('item', 'text').addColumn('amount', 'integer').execute()
  await kysely.insertInto('stock').values({ item: 'chair', amount: 0 }).execute()

  const add = (token?: bigint) =>
    fp.withLock('stock', lock =>
      kysely.transaction().execute(async trx => {
        await sql`select fencepost.fence('stock', ${token ?? lock.token})`.execute(trx)
        const { amount } = await trx.selectFrom('stock').select('amount').executeTakeFirstOrThrow()
        await trx
          .updateTable('stock')
          .set({ amount: amount + 1 })
          .execute()
        return lock.token
      }),
    )
  const tokens = await Promise.all(Array.from({ length: 20 }, () => add()))
  await expect(add(tokens[0])).rejects.toMatchObject({ code: 'FP002' })
  expect(await db.query('select amount from stock')).toEqual([{ amount: 20 }])
})
