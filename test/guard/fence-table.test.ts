import type pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { migrate } from '../../src/database/migrate.ts'
import { copyIn } from './support/copy-in.ts'
import { Setting } from './support/setting.ts'

let setting: Setting
let schema: string
let trx: pg.PoolClient
/** The server's, the major one. */
let version: number
beforeAll(async () => {
  setting = await Setting.create()
  schema = `"${setting.db.schema.replaceAll('"', '""')}"`
  await setting.db.query(
    `create table stock (shop int, item text, amount int, token bigint, primary key (shop, item))`,
  )
  await fence('stock', 'token', `'shop ' || shop`)
  const [row] = await setting.db.query<{ number: number }>(
    `select current_setting('server_version_num')::int as number`,
  )
  version = Math.floor((row?.number ?? 0) / 10_000)
})
beforeEach(async () => {
  await setting.db.query('alter table stock disable trigger zz_fencepost_fence')
  await setting.db.query(
    `truncate stock, ${schema}.fences; insert into stock values (1, 'chair', 1, 10), (2, 'lamp', 1, null)`,
  )
  await setting.db.query('alter table stock enable trigger zz_fencepost_fence')
  trx = await setting.begun()
})
afterEach(() => setting.clear())
afterAll(() => setting.db.drop())

const fence = (target: string, column: string, resource: string) =>
  setting.db.query(`select ${schema}.fence_table($1, $2, $3)`, [target, column, resource])
const unfence = async (target: string) =>
  (await setting.db.query<{ was: boolean }>(`select ${schema}.unfence_table($1) as was`, [target]))[0]?.was
const present = (token: unknown, resource = 'shop 1', by: { query: pg.PoolClient['query'] } = trx) =>
  by.query(`select ${schema}.present($1, $2)`, [resource, token])
const refused = (state: string) => ({ code: state })

interface Write {
  readonly statement: string
  /** What follows a COPY. */
  readonly data?: string
  /** The tokens of the shop's rows after it. */
  readonly leaves: readonly string[]
  /** The server's major version that brought it. */
  readonly since?: number
}

const merge = 'merge into stock s using (values (1, $$chair$$)) v(shop, item) on s.shop = v.shop and s.item'
const writes = {
  INSERT: { statement: `insert into stock values (1, 'table', 1)`, leaves: ['10', '20'] },
  COPY: {
    statement: 'copy stock (shop, item, amount) from stdin',
    data: '1\ttable\t1\n',
    leaves: ['10', '20'],
  },
  UPDATE: { statement: `update stock set amount = 2 where shop = 1`, leaves: ['20'] },
  'UPDATE that leaves its columns as they are': {
    statement: `update stock set amount = amount where shop = 1`,
    leaves: ['20'],
  },
  'UPDATE of the token': { statement: `update stock set token = 9999 where shop = 1`, leaves: ['20'] },
  DELETE: { statement: 'delete from stock where shop = 1', leaves: [] },
  'ON CONFLICT DO UPDATE': {
    statement: `insert into stock values (1, 'chair', 1) on conflict (shop, item) do update set amount = 3`,
    leaves: ['20'],
  },
  'ON CONFLICT DO NOTHING': {
    statement: `insert into stock values (1, 'chair', 1) on conflict do nothing`,
    leaves: ['10'],
  },
  'MERGE that updates': {
    statement: `${merge} = v.item when matched then update set amount = 3`,
    leaves: ['20'],
    since: 15,
  },
  'MERGE that deletes': { statement: `${merge} = v.item when matched then delete`, leaves: [], since: 15 },
  'MERGE that inserts': {
    statement: `${merge} = 'table' when not matched then insert (shop, item, amount) values (1, 'table', 1)`,
    leaves: ['10', '20'],
    since: 15,
  },
} satisfies Record<string, Write>

const run = ({ statement, data }: Write) =>
  data === undefined ? trx.query(statement) : copyIn(trx, statement, data)

describe.each(Object.entries<Write>(writes))('%s', (_, write) => {
  beforeEach(({ skip }) => skip(version < (write.since ?? 0), `since PostgreSQL ${write.since}`))

  test('with nothing presented is refused', async () => {
    await expect(run(write)).rejects.toMatchObject(refused('FP008'))
  })

  test('with another resource presented is refused', async () => {
    await present(20, 'shop 2')
    await expect(run(write)).rejects.toMatchObject(refused('FP008'))
  })

  test('with a token presented is stamped', async () => {
    await present(20)
    await run(write)
    await trx.query('commit')
    const rows = await setting.db.query<{ token: string }>(
      'select token from stock where shop = 1 order by token',
    )
    expect(rows.map(row => row.token)).toEqual(write.leaves)
  })
})

test('a row that was written under a later token is refused, where the mark was lost', async () => {
  await present(9)
  await expect(run(writes.UPDATE)).rejects.toMatchObject(refused('FP002'))
  await trx.query('rollback; begin')
  await present(9)
  await expect(run(writes.DELETE)).rejects.toMatchObject(refused('FP002'))
})

test('a stale token is refused when it is presented; the same and a newer one are not', async () => {
  await present(20)
  await present(20)
  await present(21)
  await run(writes.UPDATE)
  await trx.query('commit; begin')
  await expect(present(20)).rejects.toMatchObject(refused('FP002'))
  await trx.query('rollback; begin')
  for (const [token, state] of [
    [-1, 'FP007'],
    [null, 'FP007'],
    ['one', '22P02'],
  ]) {
    await expect(present(token)).rejects.toMatchObject({ code: state })
    await trx.query('rollback; begin')
  }
})

test('what was presented ends with the transaction, and with a savepoint', async () => {
  await present(20)
  await trx.query('commit; begin')
  await expect(run(writes.UPDATE)).rejects.toMatchObject(refused('FP008'))
  await trx.query('rollback; begin; savepoint s')
  await present(20)
  await run(writes.UPDATE)
  await trx.query('rollback to s')
  await expect(run(writes.UPDATE)).rejects.toMatchObject(refused('FP008'))
})

test('who presented keeps a newer one waiting, and then out of what it has read', async () => {
  await present(20)
  const other = await setting.begun()
  const pid = (await other.query('select pg_backend_pid() as pid')).rows[0].pid
  const newer = present(30, 'shop 1', other)
  await expect
    .poll(async () => (await setting.db.query('select pg_blocking_pids($1) as pids', [pid]))[0])
    .toMatchObject({ pids: [expect.any(Number)] })
  await run(writes.UPDATE)
  await trx.query('commit')
  await newer
  await other.query(writes.UPDATE.statement)
  await other.query('commit')
  await trx.query('begin')
  await expect(present(20)).rejects.toMatchObject(refused('FP002'))
})

test('a row that moves from one resource to another needs both', async () => {
  const move = `update stock set shop = 2 where item = 'chair'`
  await present(20)
  await expect(trx.query(move)).rejects.toMatchObject(refused('FP008'))
  await trx.query('rollback; begin')
  await present(5, 'shop 2')
  await expect(trx.query(move)).rejects.toMatchObject(refused('FP008'))
  await trx.query('rollback; begin')
  await present(20)
  await present(5, 'shop 2')
  await trx.query(move)
  const { rows } = await trx.query(`select token from stock where item = 'chair'`)
  expect(rows).toEqual([{ token: '5' }])
})

test('TRUNCATE and a replica’s session are not seen', async () => {
  await trx.query('set local session_replication_role = replica')
  await trx.query(writes.UPDATE.statement)
  await trx.query('rollback; begin; truncate stock')
})

test('odd names, in another schema', async () => {
  await setting.db.query(`create schema "it's ""odd"" %I"`)
  const name = `"it's ""odd"" %I"."ta%ble ""x"" 'y'"`
  await setting.db.query(
    `create table ${name} ("to'k ""en" bigint, "a""b" text, "new" int, resource int, token int)`,
  )
  await fence(name, `to'k "en`, `'r ' || "a""b" || "new"`)
  await expect(trx.query(`insert into ${name} values (null, 'x', 1)`)).rejects.toMatchObject(refused('FP008'))
  await trx.query('rollback; begin')
  await present(7, 'r x1')
  await trx.query(`insert into ${name} values (null, 'x', 1)`)
  await trx.query(`update ${name} set "new" = 1`)
  expect((await trx.query(`select * from ${name}`)).rows).toMatchObject([{ 'to\'k "en': '7', 'a"b': 'x' }])
  await trx.query('commit')
  expect(await unfence(name)).toBe(true)
  expect(await unfence(name)).toBe(false)
  await setting.db.query(`delete from ${name}`)
})

test('a literal for the whole table; fenced again with another expression', async () => {
  await setting.db.query('create table whole (n int, token bigint)')
  await fence('whole', 'token', `'whole'`)
  await present(1, 'whole')
  await trx.query('insert into whole values (1)')
  await trx.query('commit; begin')
  await fence('whole', 'token', `'n ' || n`)
  await present(2, 'whole')
  await expect(trx.query('delete from whole')).rejects.toMatchObject(refused('FP008'))
})

test('partitions: those that are there, those that come, and a row that moves between them', async () => {
  await setting.db.query(`
    create table parts (n int, token bigint) partition by list (n);
    create table part1 partition of parts for values in (1)`)
  await fence('parts', 'token', `'parts'`)
  await setting.db.query('create table part2 partition of parts for values in (2)')
  for (const table of ['parts', 'part1']) {
    await expect(trx.query(`insert into ${table} values (1)`)).rejects.toMatchObject(refused('FP008'))
    await trx.query('rollback; begin')
  }
  await present(3, 'parts')
  await trx.query('insert into parts values (1)')
  await trx.query('update parts set n = 2')
  expect((await trx.query('select * from part2')).rows).toEqual([{ n: 2, token: '3' }])
  await trx.query('commit')
  await expect(unfence('part2')).rejects.toMatchObject({ code: '2BP01' })
  expect(await unfence('parts')).toBe(true)
  await setting.db.query('delete from parts')
})

test('triggers that are there already: what they change is fenced as they leave it', async () => {
  await setting.db.query(`
    create table busy (r text, token bigint);
    create function upper_r() returns trigger language plpgsql as
      $$ begin new.r := upper(new.r); new.token := 999; return new; end $$;
    create trigger upper before insert or update on busy for each row execute function upper_r()`)
  await fence('busy', 'token', 'r')
  await present(4, 'A')
  await trx.query(`insert into busy values ('a')`)
  expect((await trx.query('select * from busy')).rows).toEqual([{ r: 'A', token: '4' }])
  await setting.db.query(`
    create table taken (token bigint);
    create trigger zz_fencepost_fence before insert on taken for each row execute function upper_r()`)
  await expect(fence('taken', 'token', `'x'`)).rejects.toMatchObject({ code: '42710' })
  expect(await unfence('taken')).toBe(false)
})

test.each([
  ['no such table', 'nowhere', 'token', `'x'`, '42P01'],
  ['a view', 'seen', 'token', `'x'`, '42809'],
  ['no such column', 'stock', 'nothing', `'x'`, '42703'],
  ['a column of another type', 'stock', 'amount', `'x'`, '42804'],
  ['an expression over what is not there', 'stock', 'token', 'nothing', '42703'],
  ['an expression that is none', 'stock', 'token', `'x`, '42601'],
])('refused: %s', async (_, target, column, resource, code) => {
  await setting.db.query('create or replace view seen as select * from stock')
  await expect(fence(target, column, resource)).rejects.toMatchObject({ code })
})

test('a role that only uses locks fences its own tables, and writes them', async () => {
  const role = `${setting.db.name}_app`
  await setting.db.query(`create role ${role} login password 'app'`)
  await migrate({ connection: setting.db.url, schema: setting.db.schema, grant: [role] })
  await setting.db.query(`create schema app authorization ${role}`)
  const url = Object.assign(new URL(setting.db.url), { username: role, password: 'app' })
  const app = await setting.db.pool({ connectionString: url.href, max: 1 }).connect()
  await app.query('create table app.own (n int, token bigint)')
  await app.query(`select ${schema}.fence_table('app.own', 'token', '''own''')`)
  await expect(app.query('insert into app.own values (1)')).rejects.toMatchObject(refused('FP008'))
  await app.query('begin')
  await present(5, 'own', app)
  await app.query('insert into app.own values (1)')
  await app.query('commit')
  await expect(
    app.query(`select ${schema}.fence_table('public.stock', 'token', '''own''')`),
  ).rejects.toMatchObject({ code: '42501' })
  app.release(true)
})
