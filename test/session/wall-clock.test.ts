// The client's wall clock is trusted for nothing: wrong from the start it has no effect, stepped it suspends until the
// next answer, and nothing is lost by it.
import { afterEach, describe, expect, test, vi } from 'vitest'
import { NotHeldError } from '../../src/index.ts'
import { expectHeld } from '../support/held.ts'
import { until } from '../support/until.ts'
import { Stage } from './stage.ts'

const stage = new Stage()
const ttl = 4_000
const wall = Date.now.bind(Date)
const setOff = (ms: number) => void vi.spyOn(Date, 'now').mockImplementation(() => wall() + ms)
afterEach(() => vi.restoreAllMocks())

const minutes = [10, -10]

describe.each(minutes)('a wall clock that is wrong by %i minutes from the start', wrong => {
  test('has no effect', async () => {
    setOff(wrong * 60_000)
    const lock = await stage.client({ ttl }).acquire('key')
    const other = stage.client({ ttl })
    expect(await other.tryAcquire('key')).toBeNull()
    const states = new Set<string>()
    const start = performance.now()
    await until(
      () => {
        states.add(lock.state)
        return performance.now() - start > 2 * ttl
      },
      { within: 3 * ttl },
    )
    expectHeld(states)
    expect(await other.tryAcquire('key')).toBeNull()
    expect(await lock.release()).toBe('released')
  })
})

describe.each(minutes)('a wall clock that is stepped by %i minutes while a lock is held', step => {
  test('suspends every gate until the next answer, and nothing is lost', async () => {
    const client = stage.client({ ttl: '20s' })
    const lock = await client.acquire('key')
    const { token, signal } = lock
    setOff(step * 60_000)
    expect(lock.state).toBe('suspended')
    expect(lock.remaining).toBe(0)
    expect(() => lock.assertHeld()).toThrow(NotHeldError)
    expect(() => lock.token).toThrow(NotHeldError)
    expect(lock.lossReason).toBeUndefined()
    // Long before the next heartbeat is due.
    await until(() => lock.state === 'held', { within: 3_000 })
    expect(lock.token).toBe(token)
    expect(lock.remaining).toBeGreaterThan(15_000)
    expect(signal.aborted).toBe(false)
    lock.assertHeld()
    const rows = await stage.sql('select key, token from $schema.locks')
    expect(rows).toEqual([{ key: 'key', token: String(token) }])
    expect(await lock.release()).toBe('released')
  })

  test('and stepped back again: the same', async () => {
    const lock = await stage.client({ ttl: '20s' }).acquire('key')
    setOff(step * 60_000)
    expect(lock.state).toBe('suspended')
    await until(() => lock.state === 'held', { within: 3_000 })
    vi.restoreAllMocks()
    expect(lock.state).toBe('suspended')
    await until(() => lock.state === 'held', { within: 3_000 })
    expect(await lock.release()).toBe('released')
  })

  test('what was taken by another meanwhile is lost at the next answer', async () => {
    const lock = await stage.client({ ttl: '20s' }).acquire('key')
    await stage.sql("update $schema.sessions set expires_at = clock_timestamp() - interval '1 second'")
    const other = await stage.client({ ttl: '20s' }).acquire('key', { timeout: '5s' })
    setOff(step * 60_000)
    expect(lock.state).not.toBe('held')
    await until(() => lock.state === 'lost')
    expect(lock.lossReason).toBe('expired')
    expect(await other.release()).toBe('released')
  })

  test('a release while suspended is a release', async () => {
    const lock = await stage.client({ ttl: '20s' }).acquire('key')
    setOff(step * 60_000)
    expect(lock.state).toBe('suspended')
    expect(await lock.release()).toBe('released')
    expect(await stage.sql('select key from $schema.locks')).toEqual([])
  })

  test('who waits goes on waiting in place', async () => {
    const [holder, waiter] = [stage.client({ ttl: '20s' }), stage.client({ ttl })]
    const lock = await holder.acquire('key')
    const next = waiter.acquire('key')
    await until(async () => (await stage.sql('select from $schema.waiters')).length === 1)
    setOff(step * 60_000)
    expect(await lock.release()).toBe('released')
    const granted = await next
    await until(() => granted.state === 'held')
    await granted.release()
  })
})

test('a step of less than a second forward, or back, is no step', async () => {
  const lock = await stage.client({ ttl: '20s' }).acquire('key')
  for (const step of [900, -900]) {
    setOff(step)
    expect(lock.state).toBe('held')
  }
})
