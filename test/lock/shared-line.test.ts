import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { Fencepost, type Lock } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { expectNothingLeft } from '../support/leftovers.ts'
import { until } from '../support/until.ts'

let db: TestDatabase
let fp: Fencepost
let key: string
let keys = 0
beforeAll(async () => {
  db = await createDatabase()
})
beforeEach(() => {
  fp = new Fencepost({ pool: db.pool(), schema: db.schema })
  key = `key ${keys++}`
})
afterEach(async () => {
  await fp.close()
  await expectNothingLeft(db.pool({ max: 1 }), db.schema)
})
afterAll(() => db.drop())

const inLine = async (count: number) =>
  await until(async () => (await fp.query()).pending.filter(one => one.key === key).length === count)

test('a reader and writers who ask in one turn: the writers are behind the reader, not beside it', async () => {
  const granted: Lock[] = []
  const reader = fp.acquire(key, { mode: 'shared' })
  const writers = [1, 2, 3].map(async () => {
    const lock = await fp.acquire(key)
    granted.push(lock)
    return lock
  })
  const first = await reader
  await inLine(3)
  expect(granted).toEqual([])
  await first.release()
  for (const [i, writer] of writers.entries()) {
    const lock = await writer
    expect(granted.length).toBe(i + 1)
    await lock.release()
  }
})

test('a reader who lets go while its process asks for the key is gone, and who asked has it', async () => {
  const reader = await fp.acquire(key, { mode: 'shared' })
  // By now the client knows that the key is contended: what is given back and what is asked for may go in one call.
  const writer = fp.acquire(key)
  await inLine(1)
  const [, next] = await Promise.all([
    reader.release(),
    fp.acquire(key, { timeout: '20s' }),
    writer.then(lock => lock.release()),
  ])
  await next.release()
  const again = await fp.acquire(key, { mode: 'shared' })
  const [, last] = await Promise.all([again.release(), fp.acquire(key, { timeout: '4s' })])
  await last.release()
})
