import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { DatabaseSide, type Row } from '../model/functions/database-side.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'

// Every call compares what it is given with what is there, pair by pair, under its own session.

let db: TestDatabase
let sql: DatabaseSide
beforeAll(async () => {
  db = await createDatabase()
  sql = await DatabaseSide.connect(db, 1)
})
afterAll(async () => {
  sql.disconnect()
  await db.drop()
})

const mine = randomUUID()
const theirs = randomUUID()
beforeEach(async () => {
  await sql.empty()
  for (const session of [mine, theirs]) expect(await sql.open(session)).toBe(true)
})

/** Takes keys in one batch; answers the grants by key. */
async function take(
  session: string,
  ...keys: string[]
): Promise<Map<string, { token: string; request: string }>> {
  const wants = keys.map(key => ({ key, request: randomUUID(), waits: true }))
  const rows = await sql.acquire(session, 1, wants)
  return new Map(
    wants.map(({ key, request }) => {
      const row = rows.find(each => each.request === request)
      expect(row?.outcome).toBe('granted')
      return [key, { token: row?.token as string, request }]
    }),
  )
}

const tokenOf = (grants: Map<string, { token: string }>, key: string) => grants.get(key)?.token as string
const outcomes = (rows: readonly Row[]) => rows.map(({ key, token, outcome }) => ({ key, token, outcome }))

async function holders(): Promise<[key: string, session: string | null, token: string][]> {
  return (await sql.tables()).grants.map(({ key, session, token }) => [key, session, token])
}

test('a pair of swapped tokens in one batch: neither is released', async () => {
  const grants = await take(mine, 'a', 'b', 'c')
  const [a, b, c] = ['a', 'b', 'c'].map(key => tokenOf(grants, key)) as [string, string, string]
  expect(
    outcomes(
      await sql.release(mine, [
        { key: 'a', token: b },
        { key: 'b', token: a },
      ]),
    ),
  ).toEqual([
    { key: 'a', token: b, outcome: 'absent' },
    { key: 'b', token: a, outcome: 'absent' },
  ])
  expect(await holders()).toEqual([
    ['a', mine, a],
    ['b', mine, b],
    ['c', mine, c],
  ])
  // Beside a good pair, and where somebody waits.
  await sql.acquire(theirs, 1, [{ key: 'a', request: randomUUID(), waits: true }])
  const mixed = await sql.release(mine, [
    { key: 'a', token: b },
    { key: 'b', token: a },
    { key: 'c', token: c },
  ])
  expect(new Set(mixed.map(({ token, outcome }) => `${token} ${outcome}`))).toEqual(
    new Set([`${c} released`, `${b} absent`, `${a} absent`]),
  )
  expect(await holders()).toEqual([
    ['a', mine, a],
    ['b', mine, b],
  ])
})

test('one token for two keys releases the one that has it', async () => {
  const grants = await take(mine, 'a', 'b')
  const [a, b] = ['a', 'b'].map(key => tokenOf(grants, key)) as [string, string]
  await sql.release(mine, [
    { key: 'a', token: a },
    { key: 'b', token: a },
  ])
  expect(await holders()).toEqual([['b', mine, b]])
})

test('the same pair twice releases once', async () => {
  const token = tokenOf(await take(mine, 'a'), 'a')
  const rows = await sql.release(mine, [
    { key: 'a', token },
    { key: 'a', token },
  ])
  expect(rows.filter(({ outcome }) => outcome === 'released')).toHaveLength(1)
  expect(await holders()).toEqual([])
})

test('a release under another session, or with another token, finds nothing', async () => {
  const token = tokenOf(await take(mine, 'a'), 'a')
  const stale = String(BigInt(token) - 1n)
  for (const [session, given] of [
    [theirs, token],
    [mine, stale],
    [mine, String(BigInt(token) + 1n)],
    [randomUUID(), token],
  ] as const) {
    expect(outcomes(await sql.release(session, [{ key: 'a', token: given }]))).toEqual([
      { key: 'a', token: given, outcome: 'absent' },
    ])
  }
  expect(await holders()).toEqual([['a', mine, token]])
})

test('a late release does not touch the newer grant of the same session', async () => {
  const old = tokenOf(await take(mine, 'a'), 'a')
  await sql.release(mine, [{ key: 'a', token: old }])
  const token = tokenOf(await take(mine, 'a'), 'a')
  expect(outcomes(await sql.release(mine, [{ key: 'a', token: old }]))).toEqual([
    { key: 'a', token: old, outcome: 'absent' },
  ])
  expect(await holders()).toEqual([['a', mine, token]])
})

test('a cancel touches neither another’s ticket nor another’s grant', async () => {
  const grant = (await take(mine, 'a')).get('a') as { token: string; request: string }
  const request = randomUUID()
  await sql.acquire(theirs, 1, [{ key: 'a', request, waits: true }])
  const before = await sql.tables()
  for (const wants of [
    [{ key: 'a', request }],
    [{ key: 'a', request: randomUUID() }],
    [{ key: 'b', request: grant.request }],
  ]) {
    const rows = await sql.cancel(mine, wants)
    expect(rows.map(({ outcome }) => outcome)).toEqual(['absent'])
  }
  expect((await sql.cancel(theirs, [{ key: 'a', request: grant.request }])).map(row => row.outcome)).toEqual([
    'absent',
  ])
  expect(await sql.tables()).toEqual(before)
})

test('a look does not answer "granted" for what another session was granted', async () => {
  const grant = (await take(mine, 'a')).get('a') as { token: string; request: string }
  const rows = await sql.tick(theirs, [{ key: 'a', request: grant.request }], false)
  expect(rows.map(({ outcome, token }) => ({ outcome, token }))).toEqual([{ outcome: 'again', token: null }])
})

test('an acquire under another generation takes nothing, and one repeated takes nothing twice', async () => {
  const want = { key: 'a', request: randomUUID(), waits: true }
  for (const generation of [0, 2]) {
    expect((await sql.acquire(mine, generation, [want])).map(row => row.outcome)).toEqual(['dead'])
  }
  expect(await holders()).toEqual([])
  const [first] = await sql.acquire(mine, 1, [want])
  const [second] = await sql.acquire(mine, 1, [want])
  expect([second?.outcome, second?.token]).toEqual(['granted', first?.token])
  expect(await holders()).toEqual([['a', mine, first?.token]])
})

test('a heartbeat of one session renews no other', async () => {
  await sql.expire(theirs)
  expect(await sql.heartbeat(mine)).toEqual({ renewed: true, held: 0, tokens: 0n })
  expect(await sql.heartbeat(theirs)).toEqual({ renewed: false, held: 0, tokens: 0n })
  expect(await sql.heartbeat(randomUUID())).toEqual({ renewed: false, held: 0, tokens: 0n })
})
