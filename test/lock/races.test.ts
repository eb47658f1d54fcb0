import { getEventListeners } from 'node:events'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { AbortedError, Fencepost, type Lock, LockTimeoutError, QueueFullError } from '../../src/index.ts'
import { timersOf } from '../conformance/timers.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { expectNothingLeft, leftovers } from '../support/leftovers.ts'
import { clientOptions } from '../support/twist.ts'

let db: TestDatabase
const clients: Fencepost[] = []
beforeAll(async () => {
  db = await createDatabase()
  const options = clientOptions(db)
  for (let i = 0; i < 2; i++)
    clients.push(new Fencepost({ ...options, maxPending: 100, maxPendingPerKey: 100 }))
})
afterAll(async () => {
  await Promise.all(clients.map(client => client.close()))
  await expectNothingLeft(db.pool({ max: 1 }), db.schema)
  await db.drop()
})

/** A number from 0 up to `below`, the same in every run: what races is the database, not the dice. */
let state = 7
function dice(below: number): number {
  state = (state * 48_271) % 2_147_483_647
  return state % below
}

const keys = ['a', 'b', 'c']

/** One acquire that is given up after up to 30 ms, if it was not granted before, and released at once if it was. */
async function attempt(
  client: Fencepost,
  key: string,
  kind: 'abort' | 'timeout',
): Promise<'granted' | 'given up'> {
  const controller = new AbortController()
  const delay = 1 + dice(30)
  const options = kind === 'abort' ? { signal: controller.signal } : { timeout: delay }
  const timer = kind === 'abort' ? setTimeout(() => controller.abort(), delay) : undefined
  try {
    const lock = await client.acquire(key, options)
    clearTimeout(timer)
    expect(await lock.release()).toBe('released')
    return 'granted'
  } catch (error) {
    expect(error).toBeInstanceOf(kind === 'abort' ? AbortedError : LockTimeoutError)
    return 'given up'
  } finally {
    expect(getEventListeners(controller.signal, 'abort')).toEqual([])
  }
}

test('a thousand aborts and timeouts race their grants: nothing is left of any', async () => {
  const timers = timersOf('/request.ts', '/line.ts', '/asker.ts', '/fencepost.ts')
  const perClient = timersOf('/returner.ts', '/callers.ts')
  const lookups = db.pool({ max: 1 })
  const outcomes = { granted: 0, 'given up': 0 }
  for (let round = 0; round < 10; round++) {
    const callers = Array.from({ length: 10 }, async (_, i) => {
      const kind = i % 4 < 2 ? 'abort' : 'timeout'
      for (let turn = 0; turn < 10; turn++) {
        outcomes[await attempt(clients[i % 2] as Fencepost, keys[dice(3)] as string, kind)]++
      }
    })
    await Promise.all(callers)
    // At once, not in the end: whoever is told that it is over may count on it.
    expect(await leftovers(lookups, db.schema)).toMatchObject({ tickets: 0, grants: 0 })
  }
  expect(outcomes.granted + outcomes['given up']).toBe(1_000)
  expect(outcomes.granted).toBeGreaterThan(20)
  expect(outcomes['given up']).toBeGreaterThan(20)
  expect(await timers.alive()).toEqual([])
  expect((await perClient.alive()).length).toBeLessThanOrEqual(clients.length)
})

test('a hundred may still wait at once after all that, and one more may not', async () => {
  const [client] = clients as [Fencepost]
  const lock = await client.acquire('k')
  const controller = new AbortController()
  const { signal } = controller
  const waiters = Array.from({ length: 100 }, () => client.acquire('k', { signal }))
  const outcomes = Promise.allSettled(waiters)
  await expect(client.acquire('k')).rejects.toThrow(QueueFullError)
  controller.abort()
  for (const outcome of await outcomes) expect(outcome).toMatchObject({ reason: { code: 'aborted' } })
  await lock.release()
})

test('one signal for many: no listener is left on it, and Node warns of none', async () => {
  const [client, other] = clients as [Fencepost, Fencepost]
  const warnings: string[] = []
  const warned = (warning: Error) => void warnings.push(warning.name)
  process.on('warning', warned)
  const { signal } = new AbortController()
  const locks: Lock[] = []
  const first = await other.acquire('k')
  const waiters = Array.from({ length: 50 }, () =>
    client.withLock('k', { signal, timeout: '1m' }, lock => {
      locks.push(lock)
    }),
  )
  await first.release()
  await Promise.all(waiters)
  await new Promise(setImmediate)
  process.off('warning', warned)
  expect(locks).toHaveLength(50)
  expect(getEventListeners(signal, 'abort')).toEqual([])
  expect(warnings).toEqual([])
})
