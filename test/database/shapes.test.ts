// How the arguments and answers of a batch travel: against the server itself, with whatever a key may hold.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { textsOf } from '../../src/database/arguments.ts'
import { packed } from '../../src/database/shapes.ts'
import { Fencepost } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { clientOptions } from '../support/twist.ts'
import { until } from '../support/until.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await createDatabase()
})
afterAll(() => db.drop())

const odd = [
  'a',
  '"',
  '\\',
  '\\"',
  '{',
  '}',
  ',',
  '","',
  ' ',
  'NULL',
  "'",
  'é😀',
  '\n',
  '{"a","b"}',
  '$1',
  'x\\',
]

test.each([
  ['none', []],
  ['plain ones', ['a', 'b c', 'NULL', '{', ',']],
  ['odd ones', odd],
  ['one that is quoted', ['"']],
  ['one that is escaped', ['\\']],
])('an array of %s is what the server reads', async (_, values) => {
  const [, literal] = textsOf('keys', values)
  expect((await db.query<{ read: string[] }>('select $1::text[] as read', [literal]))[0]?.read).toEqual(
    values,
  )
})

test('an answer is taken apart into what was granted and the rest', () => {
  expect(packed.read([['r1 5 r2 6', '[["r3","queued",null,"k \\"x\\"",null,12.5]]']])).toEqual([
    ['r3', 'queued', null, 'k "x"', null, 12.5],
    ['r1', 'granted', '5'],
    ['r2', 'granted', '6'],
  ])
  expect(packed.read([[null, null]])).toEqual([])
})

test('a batch of odd keys, some of them held by another: each caller has the answer to its own', async () => {
  const [client, other] = [new Fencepost(clientOptions(db)), new Fencepost(clientOptions(db))]
  // Until it is known whose the connection is, everything goes by another way.
  await (await client.acquire('first')).release()
  await until(async () => (await client.health()).waking !== 'connecting')
  const taken = await Promise.all(odd.slice(0, 6).map(key => other.acquire(key)))
  const tries = await Promise.all(odd.map(key => client.tryAcquire(key)))
  expect(tries.map(lock => lock?.key ?? null)).toEqual([...Array(6).fill(null), ...odd.slice(6)])
  const { held } = await client.query()
  expect(new Map(held.map(({ key, token }) => [key, token]))).toEqual(
    new Map([...taken, ...tries].flatMap(lock => (lock ? [[lock.key, lock.token] as const] : []))),
  )
  await Promise.all([...taken, ...tries].map(lock => lock?.release()))
  expect((await client.query()).held).toEqual([])
  await Promise.all([client.close(), other.close()])
})
