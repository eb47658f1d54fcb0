// Kysely 0.29, which the peers allow as well; 0.28 is the one of all other tests.
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { guard, queryable, transaction } from '../../src/kysely.ts'
import { Setting } from '../guard/support/setting.ts'
import { hasRecipes } from './apart.ts'
import { guarding, type Library } from './guarding.ts'

type Database = import('kysely').Kysely<{ notes: { text: string } }>

describe.runIf(hasRecipes)('Kysely 0.29', () => {
  let setting: Setting
  let db: Database
  let library: Library
  beforeAll(async () => {
    const entry = fileURLToPath(new URL('apart/node_modules/kysely/dist/index.js', import.meta.url))
    const { Kysely, PostgresDialect } = await import(entry)
    setting = await Setting.create()
    const pool = setting.db.pool({ max: 3 })
    pool.on('connect', client => client.on('error', () => {}))
    db = new Kysely({ dialect: new PostgresDialect({ pool }) })
    library = {
      transaction: work =>
        db
          .transaction()
          .execute(trx => work(queryable(trx), text => trx.insertInto('notes').values({ text }).execute())),
      outside: () => queryable(db as never),
    }
  })
  afterEach(() => setting.clear())
  afterAll(() => setting.db.drop())

  guarding(
    () => setting,
    () => library,
  )

  test('guard and transaction of fencepost/kysely', async () => {
    const lock = await setting.fencepost().acquire(setting.key())
    await transaction(lock, db, trx => trx.insertInto('notes').values({ text: 'a' }).execute())
    await db.transaction().execute(async trx => {
      await guard(lock, trx)
      await trx.insertInto('notes').values({ text: 'b' }).execute()
    })
    expect(await setting.notes()).toEqual(['a', 'b'])
  })
})
