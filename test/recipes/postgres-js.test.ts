import postgres from 'postgres'
import { afterAll, afterEach, beforeAll, describe } from 'vitest'
import { Setting } from '../guard/support/setting.ts'
import { guarding, type Library } from './guarding.ts'
import { recipe } from './recipe.ts'

const fromPostgresJs = recipe<Pick<postgres.Sql, 'unsafe'>>('fromPostgresJs')

let setting: Setting
let sql: postgres.Sql
let library: Library
beforeAll(async () => {
  setting = await Setting.create()
  sql = postgres(setting.db.url, { max: 3 })
  library = {
    transaction: async <T>(work: Parameters<typeof library.transaction<T>>[0]) =>
      (await sql.begin(trx =>
        work(fromPostgresJs(trx), text => trx`insert into notes ${trx({ text })}`),
      )) as T,
    outside: () => fromPostgresJs(sql),
  }
})
afterEach(() => setting.clear())
afterAll(async () => {
  await sql.end()
  await setting.db.drop()
})

describe('postgres.js', () => {
  guarding(
    () => setting,
    () => library,
  )
})
