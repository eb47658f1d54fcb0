// Calls with ids and tokens that belong elsewhere. test/lock/only-mine.test.ts has those that are swapped or another's.
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { channelOf, DatabaseSide } from '../model/functions/database-side.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { everyRow, inSchema } from './support/sql.ts'

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

interface Taken {
  readonly key: string
  readonly request: string
  readonly token: string
}

const mine = randomUUID()
const theirs = randomUUID()
/** "a" and "b" are mine, "c" is theirs, for which I wait. */
let a: Taken
let b: Taken
let c: Taken
let ticket: string
beforeEach(async () => {
  await sql.empty()
  for (const session of [mine, theirs]) expect(await sql.open(session)).toBe(true)
  a = await take(mine, 'a')
  b = await take(mine, 'b')
  c = await take(theirs, 'c')
  ticket = randomUUID()
  const rows = await sql.acquire(mine, 1, [{ key: 'c', request: ticket, waits: true }])
  expect(rows).toMatchObject([{ outcome: 'queued' }])
})

async function take(session: string, key: string): Promise<Taken> {
  const request = randomUUID()
  const [row] = await sql.acquire(session, 1, [{ key, request, waits: true }])
  expect(row?.outcome).toBe('granted')
  return { key, request, token: row?.token as string }
}

async function ask<Row extends Record<string, unknown>>(
  text: string,
  values: unknown[] = [],
): Promise<Row[]> {
  return await db.query<Row>(inSchema(db, text), values)
}

/** What every test here ends with: the line for "c" is what it was, and moves on by a release alone. */
async function expectUntouched(before: string): Promise<void> {
  expect(await everyRow(db)).toBe(before)
  const rows = await sql.release(theirs, [c])
  expect(rows.find(({ outcome }) => outcome === 'handed')).toMatchObject({
    key: 'c',
    channel: channelOf(mine),
  })
  expect(await sql.tick(mine, [{ key: 'c', request: ticket }], false)).toMatchObject([
    { request: ticket, outcome: 'granted' },
  ])
}

test('tokens guessed, by one’s own session and by none: nothing is released', async () => {
  const before = await everyRow(db)
  const around = Array.from({ length: 101 }, (_, i) => String(BigInt(c.token) + BigInt(i - 50)))
  const wild = ['0', '-1', '9223372036854775807', '-9223372036854775808']
  for (const session of [mine, randomUUID()]) {
    const tokens = [...around, ...wild].filter(
      token => session !== mine || (token !== a.token && token !== b.token),
    )
    const rows = await sql.release(
      session,
      tokens.map(token => ({ key: 'c', token })),
    )
    expect(new Set(rows.map(({ outcome }) => outcome))).toEqual(new Set(['absent']))
  }
  for (const [key, { token }] of [
    ['a', c],
    ['c', a],
    ['A', a],
    ['a ', a],
    ['', a],
  ] as const) {
    expect(await sql.release(mine, [{ key, token }])).toMatchObject([{ outcome: 'absent' }])
  }
  await expectUntouched(before)
})

test('lists of keys and tokens that do not match: what has no pair is nothing', async () => {
  const before = await everyRow(db)
  const uneven: [string[], (string | null)[]][] = [
    [['a'], []],
    [[], [a.token]],
    [['a', 'b'], [b.token]],
    [
      ['c', 'c'],
      [a.token, b.token],
    ],
    [
      ['a', 'b'],
      [null, null],
    ],
  ]
  for (const [keys, tokens] of uneven) {
    const rows = await ask<{ outcome: string }>('select outcome from $schema.release($1, $2, $3)', [
      mine,
      keys,
      tokens,
    ])
    expect(rows.filter(({ outcome }) => outcome !== 'absent')).toEqual([])
  }
  for (const [keys, requests] of [
    [['a'], []],
    [['a', 'b'], [b.request]],
    [['b'], [a.request, b.request]],
    [['a'], [null]],
  ]) {
    await ask('select * from $schema.cancel($1, $2, $3)', [mine, keys, requests])
  }
  const asked = 'select * from $schema.acquire($1, 1, $2, $3)'
  await expect(ask(asked, [mine, ['d', 'e'], [randomUUID()]])).rejects.toMatchObject({ code: 'FP005' })
  await expect(ask(asked, [mine, ['d'], []])).rejects.toMatchObject({ code: 'FP005' })
  await expect(ask(asked, [mine, [null], [randomUUID()]])).rejects.toMatchObject({ code: '23502' })
  await expect(ask(asked, [mine, ['d', ''], [randomUUID(), randomUUID()]])).rejects.toMatchObject({
    code: '23514',
  })
  await expectUntouched(before)
})

test('a request of one’s own under another key proves nothing there', async () => {
  const before = await everyRow(db)
  for (const request of [a.request, ticket]) {
    const [looked] = await sql.tick(mine, [{ key: 'b', request }], false)
    expect(looked).toMatchObject({ outcome: 'again', token: null })
    expect(await sql.cancel(mine, [{ key: 'b', request }])).toMatchObject([{ outcome: 'absent' }])
    // A try does not take it for the grant that it is the name of.
    expect(await sql.acquire(mine, 1, [{ key: 'b', request, waits: false }])).toMatchObject([
      { outcome: 'busy', token: null },
    ])
  }
  expect(await sql.cancel(mine, [{ key: 'a', request: ticket }])).toMatchObject([{ outcome: 'absent' }])
  expect(await everyRow(db)).toBe(before)
  // A free key is another grant, which does not go with the first.
  const [other] = await sql.acquire(mine, 1, [{ key: 'free', request: a.request, waits: true }])
  expect(other?.outcome).toBe('granted')
  expect(BigInt(other?.token as string)).toBeGreaterThan(BigInt(c.token))
  expect(await sql.cancel(mine, [{ key: 'free', request: a.request }])).toMatchObject([
    { outcome: 'released' },
  ])
  await expectUntouched(before)
})

test('another’s request under one’s own session: neither its grant nor its place', async () => {
  const before = await everyRow(db)
  expect(await sql.acquire(theirs, 1, [{ key: 'a', request: a.request, waits: false }])).toMatchObject([
    { outcome: 'busy', token: null },
  ])
  // The name of a ticket that is there: no second place in line, and the first stays whose it was.
  const again = await sql.acquire(theirs, 1, [{ key: 'c', request: ticket, waits: true }])
  expect(again.map(({ token }) => token)).toEqual([null])
  const looked = await sql.tick(theirs, [{ key: 'c', request: ticket }], false)
  expect(looked.map(({ token }) => token)).toEqual([null])
  expect(await sql.cancel(theirs, [{ key: 'c', request: ticket }])).toMatchObject([{ outcome: 'absent' }])
  await expectUntouched(before)
})

test('a grant is pinned by its own key and token together', async () => {
  const before = await everyRow(db)
  const wrong: [string, string][] = [
    ['a', b.token],
    ['b', a.token],
    ['c', a.token],
    ['nobody has it', a.token],
    ['a', String(BigInt(a.token) + 3n)],
    ['a', String(BigInt(a.token) - 1n)],
    ['a', '0'],
  ]
  for (const pair of wrong) {
    expect(await ask('select * from $schema.pin($1, $2)', pair)).toEqual([])
    for (const call of ['assert_held', 'pin_again']) {
      const code = call === 'assert_held' && pair[1] === '0' ? 'FP007' : 'FP003'
      await expect(ask(`select $schema.${call}($1, $2)`, pair)).rejects.toMatchObject({ code })
    }
  }
  // Pinned by nobody, it goes to the next as soon as it is released.
  await expectUntouched(before)
})

test('under the wrong session, or none, nothing is renewed, raised, read or ended', async () => {
  const before = await everyRow(db)
  const expiry = async () =>
    await ask('select id, expires_at::text from $schema.sessions where id = $1', [theirs])
  const expires = await expiry()
  for (const session of [mine, randomUUID(), '00000000-0000-0000-0000-000000000000', null]) {
    const [beat] = await ask('select renewed, held, tokens, forced from $schema.heartbeat($1)', [session])
    const own = { renewed: true, held: '2', tokens: String(BigInt(a.token) ^ BigInt(b.token)), forced: [] }
    expect(beat).toEqual(session === mine ? own : { renewed: false, held: '0', tokens: '0', forced: [] })
    const settled = await ask<{ key: string }>('select key from $schema.settle($1) order by key', [session])
    expect(settled.map(({ key }) => key)).toEqual(session === mine ? ['a', 'b'] : [])
    for (const generation of [5, 2, -1]) {
      const raised = await ask('select $schema.raise_generation($1, $2) as raised', [session, generation])
      expect(raised).toEqual([{ raised: null }])
    }
    if (session !== mine) expect(await ask('select * from $schema.close_session($1)', [session])).toEqual([])
  }
  expect(await expiry()).toEqual(expires)
  await expectUntouched(before)
})

test('to open a session again changes nothing of it', async () => {
  const before = await everyRow(db)
  const again = `select generation from $schema.open_session($1, '2s', 'somebody else', 'elsewhere', '{"host": "x"}')`
  expect(await ask(again, [theirs])).toEqual([{ generation: '1' }])
  await expectUntouched(before)
})

test('a forged witness buries nobody who lives, and lowers no token', async () => {
  const base = 9_223_372_036_854_775_807n
  const day = 86_400_000
  const forged = [
    `(${base},,)`,
    `(-${base},,)`,
    `(,0,0)`,
    `(,${8.64e15},0)`,
    `(,-1e300,1e300)`,
    `(,NaN,NaN)`,
    `(,${Date.now()},${-day})`,
  ]
  const before = await everyRow(db)
  for (const [index, seen] of forged.entries()) {
    const key = `free ${index}`
    const [granted] = await ask<{ token: string; outcome: string }>(
      `select outcome, token from $schema.acquire($1, 1, array[$2], array[gen_random_uuid()], seen => $3)`,
      [mine, key, seen],
    )
    expect(granted?.outcome, seen).toBe('granted')
    expect(BigInt(granted?.token ?? 0), seen).toBeGreaterThan(BigInt(c.token))
    expect(BigInt(granted?.token ?? base)).toBeLessThan(base)
    await ask('select * from $schema.release($1, array[$2], array[$3::bigint], seen => $4)', [
      mine,
      key,
      granted?.token,
      seen,
    ])
    await ask(`update $schema.reaper set looked_at = '-infinity'`)
    await ask(`select * from $schema.tick($1, array['c'], array[$2::uuid], $3)`, [mine, ticket, seen])
  }
  await expectUntouched(before)
})

test('what is no call of the queue’s is refused or answered with nothing, whatever its shape', async () => {
  const before = await everyRow(db)
  const session = mine
  const shapes: [string, unknown][] = [
    ['acquire', {}],
    ['acquire', { session, generation: 1, keys: 'a', requests: a.request }],
    ['acquire', { session, generation: 1, keys: { a: 1 }, requests: {} }],
    ['acquire', { session, generation: 1, keys: ['free'], requests: ["'; drop table locks; --"] }],
    ['acquire', { session, generation: '1; select 1', keys: ['free'], requests: [randomUUID()] }],
    ['acquire', { session, generation: 1e300, keys: ['free'], requests: [randomUUID()] }],
    ['acquire', { session, generation: 1, keys: ['free'], requests: [randomUUID()], wait: ['maybe'] }],
    ['acquire', { session, generation: 1, keys: ['free'], requests: [randomUUID()], seen: 'garbage' }],
    ['release', { session, keys: ['a'], tokens: ['1.5'] }],
    ['release', { session, keys: ['a'], tokens: [Number(a.token) + 1_000_000] }],
    ['release', { session: null, keys: ['a'], tokens: [a.token] }],
    ['release', { session: [mine], keys: ['a'], tokens: [a.token] }],
    ['cancel', { session: { id: mine }, keys: ['a'], requests: [a.request] }],
    ['heartbeat', []],
    ['heartbeat', 'mine'],
    ['heartbeat', null],
    ['open_session', { session: randomUUID(), ttl: '30 s; drop table locks' }],
    ['open_session', { session: randomUUID(), ttl: '100 years' }],
    ['open_session', { session: randomUUID(), ttl: '-1 s' }],
    ['close_session', { session: `${mine}'` }],
    ["close_session'", { session }],
    ['CLOSE_SESSION', { session }],
    ['close_session ', { session }],
    ['force_release', { key: 'c', reason: 'I want it', now: true }],
  ]
  for (const [name, shape] of shapes) {
    for (const road of ['select $schema.dispatch($1, $2) as result', 'call $schema.invoke($1, $2)']) {
      const answer = await ask<{ result: unknown }>(road, [name, JSON.stringify(shape)]).catch(
        error => error.code,
      )
      const said = JSON.stringify(typeof answer === 'string' ? answer : answer[0].result)
      // A value that is none; a bound; no answer at all; or an answer that says no.
      expect(said, `${name} ${JSON.stringify(shape)}`).toMatch(
        /^"(22|23|FP)|^null$|^\[\[(null|"[0-9a-f-]+"),"absent"|^\[\[false,/,
      )
    }
  }
  await expectUntouched(before)
})
