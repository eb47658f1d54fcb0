import { sql } from 'drizzle-orm'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import { pgTable, text } from 'drizzle-orm/pg-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Queryable } from '../../src/index.ts'
import { Setting } from '../guard/support/setting.ts'
import { guarding, type Library } from './guarding.ts'
import { recipe } from './recipe.ts'

const notes = pgTable('notes', { text: text().notNull() })
type Transaction = Pick<NodePgDatabase, 'execute' | 'insert'>
const fromDrizzle = recipe<Transaction>('fromDrizzle', { sql })

let setting: Setting
let library: Library
beforeAll(async () => {
  setting = await Setting.create()
  const pool = setting.db.pool({ max: 3 })
  pool.on('connect', client => client.on('error', () => {}))
  const db = drizzle({ client: pool })
  library = {
    transaction: work =>
      db.transaction(tx => work(fromDrizzle(tx), note => tx.insert(notes).values({ text: note }))),
    outside: () => fromDrizzle(db),
  }
})
afterEach(() => setting.clear())
afterAll(() => setting.db.drop())

describe('Drizzle', () => {
  guarding(
    () => setting,
    () => library,
  )

  test('the other way round: Drizzle on the client of lock.transaction', async () => {
    const lock = await setting.fencepost().acquire(setting.key())
    await lock.transaction(async trx => {
      await drizzle({ client: trx as never })
        .insert(notes)
        .values({ text: 'inside' })
    })
    expect(await setting.notes()).toEqual(['inside'])
  })

  test('a query of the recipe has the shape that is asked for', async () => {
    const { rows }: Awaited<ReturnType<Queryable['query']>> = await library.outside().query('select 1 as one')
    expect(rows).toEqual([{ one: 1 }])
  })
})
