// Every gate of a handle looks at the clock at that moment: after a stall it refuses before any timer has fired.
import { expect, test } from 'vitest'
import { type Lock, LostError } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { Stage } from './stage.ts'

const stage = new Stage()
const ttl = 2_000

/** Stops this thread and all its timers, and nothing else. */
function stall(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** Each client has a session of its own, so that no gate finds what another one has already told. */
async function holders(count: number): Promise<Lock[]> {
  return await Promise.all(Array.from({ length: count }, (_, i) => stage.client({ ttl }).acquire(`key ${i}`)))
}

/** What a gate does: its value, or its error. */
function outcomeOf(gate: () => unknown): unknown {
  try {
    return gate()
  } catch (error) {
    return error
  }
}

const gates: Record<string, (lock: Lock) => unknown> = {
  state: lock => lock.state,
  lossReason: lock => lock.lossReason,
  remaining: lock => lock.remaining,
  assertHeld: lock => lock.assertHeld(),
  token: lock => lock.token,
  'signal.aborted': lock => lock.signal.aborted,
  'signal.reason': lock => lock.signal.reason,
}

test('after a stall longer than the ttl, each gate refuses at its first reading', async () => {
  const names = Object.keys(gates)
  const locks = await holders(names.length)
  // Answered just now, so that no renewal is under way: an unanswered one would be the reason.
  await locks[0]?.renew()
  expect(locks.map(lock => lock.state)).toEqual(names.map(() => 'held'))
  stall(ttl + 100)
  // All in this turn: no timer can have fired.
  const outcomes = locks.map((lock, i) => outcomeOf(() => gates[names[i] ?? '']?.(lock)))
  const seen = Object.fromEntries(names.map((name, i) => [name, outcomes[i]]))
  expect(seen).toEqual({
    state: 'lost',
    lossReason: 'expired',
    remaining: 0,
    assertHeld: expect.any(LostError),
    token: expect.any(LostError),
    'signal.aborted': true,
    'signal.reason': expect.any(LostError),
  })
})

test('a signal that was taken before the stall aborts by itself, in the first turn after it', async () => {
  const [lock] = (await holders(1)) as [Lock]
  const { signal } = lock
  stall(ttl + 100)
  await new Promise(resolve => setTimeout(resolve))
  expect(signal.aborted).toBe(true)
  expect(signal.reason).toMatchObject({ code: 'lost', key: lock.key })
})

test('an abort listener of one lock finds all others of its session lost', async () => {
  const client = stage.client({ ttl })
  const locks = await Promise.all(['a', 'b', 'c'].map(key => client.acquire(key)))
  const seen: string[][] = []
  for (const lock of locks) {
    lock.signal.addEventListener('abort', () => seen.push(locks.map(each => each.state)))
  }
  stall(ttl + 100)
  expect(locks[1]?.state).toBe('lost')
  expect(seen).toEqual(locks.map(() => ['lost', 'lost', 'lost']))
})

test('a stall shorter than trust loses nothing', async () => {
  const lock = await stage.client({ ttl: '5s' }).acquire('key')
  const before = lock.remaining
  stall(2_500)
  expect(lock.state).toBe('held')
  expect(lock.remaining).toBeLessThan(before - 2_000)
  await until(() => lock.remaining > 4_000)
  expect(lock.signal.aborted).toBe(false)
})

test('a loss is final, told once, and everything answers after it', async () => {
  const client = stage.client({ ttl })
  const lock = await client.acquire('key')
  let aborts = 0
  lock.signal.addEventListener('abort', () => aborts++)
  stall(ttl + 100)
  expect(lock.state).toBe('lost')
  const reason = lock.lossReason
  // The same client holds it again; the old handle does not.
  const again = await client.acquire('key')
  expect([lock.state, lock.remaining, aborts]).toEqual(['lost', 0, 1])
  expect(() => lock.assertHeld()).toThrow(LostError)
  await expect(lock.renew()).rejects.toBeInstanceOf(LostError)
  expect(await lock.release()).toBe(reason)
  expect(await lock.release()).toBe(reason)
  expect(again.state).toBe('held')
  expect(await again.release()).toBe('released')
})

test('a section that outlives its lock is told by its rejection', async () => {
  const client = stage.client({ ttl })
  const running = client.withLock('key', () => stall(ttl + 100))
  await expect(running).rejects.toMatchObject({ code: 'lost', key: 'key' })
})

test('what the section itself throws is thrown, also after a loss', async () => {
  const client = stage.client({ ttl })
  const running = client.withLock('key', () => {
    stall(ttl + 100)
    throw new Error('mine')
  })
  await expect(running).rejects.toThrow('mine')
})

test('an answer that arrives only after trust in it has ended is no grant', async () => {
  const client = stage.client({ ttl })
  const other = stage.client()
  await (await client.acquire('warm')).release()
  const asked = client.acquire('key')
  // The grant is committed meanwhile; its answer is read after the stall.
  await new Promise(setImmediate)
  stall(ttl + 100)
  const lock = await asked
  expect(lock.state).toBe('held')
  expect(lock.remaining).toBeGreaterThan(0)
  await lock.release()
  await (await other.acquire('key', { timeout: '5s' })).release()
})
