// Guards put keys and tokens into their statements as literals, beside a BEGIN that takes no parameters.
import fc from 'fast-check'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Fencepost, LostError } from '../../src/index.ts'
import { seed } from '../model/seed.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { Canary } from './support/canary.ts'
import { hostileText } from './support/hostile-text.ts'
import { inSchema } from './support/sql.ts'

let db: TestDatabase
let canary: Canary
beforeAll(async () => {
  db = await createDatabase({ schema: `it's $$ "odd" \\ %I -- ;` })
  await db.query('create table public.notes (text text)')
  canary = await Canary.plant(db)
})
afterEach(() => canary.expectAlive())
afterAll(async () => {
  await canary.uproot()
  await db.drop()
})

const bounds = { seed, interruptAfterTimeLimit: 15_000 }

describe.each(['on', 'off'])('standard_conforming_strings = %s', standard => {
  let fp: Fencepost
  let pool: pg.Pool
  beforeAll(async () => {
    pool = db.pool({
      max: 2,
      options: `-c standard_conforming_strings=${standard} -c escape_string_warning=off`,
    })
    const { rows } = await pool.query('show standard_conforming_strings')
    expect(rows).toEqual([{ standard_conforming_strings: standard }])
    fp = new Fencepost({ pool, schema: db.schema })
  })
  afterAll(() => fp.close())

  const notes = async () =>
    (await db.query<{ text: string }>('select text from notes')).map(({ text }) => text)

  test('a transaction under any key writes what it was given, and only while the key is held', async () => {
    const present = inSchema(db, 'select $schema.present($1, $2)')
    const property = fc.asyncProperty(hostileText(300), hostileText(300), async (key, resource) => {
      const lock = await fp.acquire(key)
      await lock.transaction(async client => {
        await client.query(present, [resource, lock.token])
        await client.query('insert into notes values ($1)', [key])
      })
      const client = await pool.connect()
      await client.query('begin')
      const guard = await lock.guard(client)
      await client.query('insert into notes values ($1)', [resource])
      await guard.confirm()
      await client.query('commit')
      expect(await guard.wasCommitted()).toBe(true)
      client.release()
      expect(await notes()).toEqual([key, resource])
      const marks = await db.query(inSchema(db, 'select resource, token from $schema.fences'))
      expect(marks).toEqual([{ resource, token: String(lock.token) }])

      // Taken by hand, its client does not know it yet.
      await fp.forceRelease(key, { reason: 'why', now: true })
      const late = lock.transaction(inside => inside.query('insert into notes values ($1)', ['late']))
      await expect(late).rejects.toBeInstanceOf(LostError)
      await lock.release()
      expect(await notes()).toEqual([key, resource])
      await db.query(inSchema(db, 'delete from notes; delete from $schema.fences'))
      await canary.expectAlive()
    })
    await fc.assert(property, { ...bounds, numRuns: 30 })
  }, 60_000)

  test('a table, a column and a resource by any name are fenced', async () => {
    const name = hostileText(63)
    const property = fc.asyncProperty(name, name, hostileText(300), async (named, column, resource) => {
      const [table, field] = [
        `public.${pg.escapeIdentifier(`${named.slice(0, 10)} t`)}`,
        pg.escapeIdentifier(column),
      ]
      const client = await pool.connect()
      try {
        await client.query(`create table ${table} (${field} bigint, "owner's" text)`)
        const fence = inSchema(db, 'select $schema.fence_table($1::regclass, $2, $3)')
        const insert = `insert into ${table} ("owner's") values ($1)`
        const present = (token: number) =>
          client.query(inSchema(db, 'select $schema.present($1, $2)'), [resource, token])
        for (const [expression, token] of [
          [pg.escapeLiteral(resource), 5],
          [`"owner's"`, 6],
        ] as const) {
          await client.query(fence, [table, column, expression])
          await expect(client.query(insert, [resource])).rejects.toMatchObject({ code: 'FP008' })
          await client.query('begin')
          await present(token)
          await client.query(insert, [resource])
          await client.query('commit')
        }
        const { rows } = await client.query(
          `select ${field} as token, "owner's" as owner from ${table} order by 1`,
        )
        expect(rows).toEqual([5, 6].map(token => ({ token: String(token), owner: resource })))
        await client.query('begin')
        await expect(present(4)).rejects.toMatchObject({ code: 'FP002' })
        await client.query('rollback')
      } finally {
        await client.query(`rollback; drop table if exists ${table}`)
        await client.query(inSchema(db, 'delete from $schema.fences'))
        client.release()
      }
      await canary.expectAlive()
    })
    await fc.assert(property, { ...bounds, numRuns: 20 })
  }, 60_000)
})
