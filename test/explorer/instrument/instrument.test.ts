import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createDatabase, type TestDatabase } from '../../support/database.ts'
import { Explorer } from '../explorer.ts'
import { footprintOf } from './footprint.ts'
import { statementsOf } from './plpgsql.ts'

describe('statements of a body', () => {
  test('are all found, in the order of the text, in blocks, too', () => {
    const body = `
declare n int := f();
begin
  n := case when n > 1 then 2 else 3 end;  -- begin; no
  if n = 2 and exists (select from t; ) then perform g('a;b'); elsif n = 3 then return; else delete from t; end if;
  for r in select 1 loop
    continue when not found;
  end loop;
  loop exit; end loop;
end`
    expect(statementsOf(body).map(({ text }) => text.trim())).toEqual([
      'n := case when n > 1 then 2 else 3 end',
      'if n = 2 and exists (select from t; )',
      "perform g('a;b')",
      'return',
      'delete from t',
      'for r in select 1',
      'continue when not found',
      'exit',
    ])
  })

  test.each([
    'begin execute x; end',
    'begin begin null; end; end',
    'begin if a then null; elsif exists (select from t) then null; end if; end',
  ])('that are not understood are refused: %s', body => {
    expect(() => statementsOf(body)).toThrow(/^plpgsql: /)
  })
})

describe('what a statement touches', () => {
  test.each([
    [
      'perform from locks l where l.key = k for key share',
      { sees: ['locks'], locks: [], shares: ['locks'], writes: [] },
    ],
    [
      'perform from locks for update skip locked',
      { sees: ['locks'], locks: ['locks'], shares: [], writes: [] },
    ],
    [
      'select from sessions s join waiters w on true -- locks',
      { sees: ['sessions', 'waiters'], locks: [], shares: [], writes: [] },
    ],
    [
      'delete from waiters w where true',
      { sees: ['waiters'], locks: ['waiters'], shares: [], writes: ['waiters'] },
    ],
    [
      'insert into waiters (key) values (1)',
      { sees: ['waiters'], locks: [], shares: [], writes: ['waiters'] },
    ],
    ['select h.base from here h', { sees: ['cluster', 'canary'], locks: [], shares: [], writes: [] }],
  ])('%s', (sql, expected) => {
    const { sees, locks, shares, writes } = footprintOf(sql)
    expect({ sees: [...sees], locks: [...locks], shares: [...shares], writes: [...writes] }).toEqual(expected)
  })
})

describe('a protocol that has changed under the explorer', () => {
  let db: TestDatabase
  beforeEach(async () => {
    db = await createDatabase()
  })
  afterEach(() => db.drop())

  test('is refused where the text of an inner gate is gone', async () => {
    await rewrite('take', 'l.key = take.key for update', 'take.key = l.key for update')
    await expect(install()).rejects.toThrow('take: 0 times in the text, want once')
  })

  test('is refused where a known race could not be seen any more', async () => {
    await rewrite(
      'hand_over',
      'delete from waiters w where w.key = head.key and w.ticket = head.ticket;\n    continue when',
      'continue when',
    )
    await expect(install()).rejects.toThrow('hand_over: 0 times in the text, want once')
  })

  test('is refused where it calls a function that the explorer does not know', async () => {
    await db.query(
      `create function ${pg.escapeIdentifier(db.schema)}.stranger() returns void language sql as ''`,
    )
    await rewrite('bury', 'perform durable()', 'perform stranger()')
    await expect(install()).rejects.toThrow('stranger is not known to points.ts')
  })

  test('is refused where an edit finds nothing to edit', async () => {
    const edits = [{ function: 'take', from: 'no such text', to: '' }]
    await expect(Explorer.install(db.url, db.schema, edits)).rejects.toThrow(
      'the edit of take: 0 times in the text, want once',
    )
  })

  const install = () => Explorer.install(db.url, db.schema)

  async function rewrite(name: string, from: string, to: string): Promise<void> {
    const found = await db.query<{ definition: string }>(
      'select pg_get_functiondef(oid) as definition from pg_proc where proname = $1 and pronamespace = $2::regnamespace',
      [name, pg.escapeIdentifier(db.schema)],
    )
    const [row] = found
    expect(row?.definition).toContain(from)
    await db.query(
      `set search_path to ${pg.escapeIdentifier(db.schema)}, pg_temp; ${row?.definition.replace(from, to)}`,
    )
  }
})
