// Wrong arguments of shared locks, semaphores and several keys: refused at once, and nothing is taken.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  type AcquireOptions,
  BadKeyError,
  BadOptionError,
  type Fencepost,
  type PermitOptions,
  type SemaphoreOptions,
} from '../../src/index.ts'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'

describe('refused at once, and nothing is taken', () => {
  const stage = new Stage(ways['a pool'])
  let client: Fencepost
  beforeEach(() => {
    client = stage.client()
  })
  afterEach(async () => {
    expect(await stage.db.query(`select from ${stage.sql('sessions')}`)).toEqual([])
    expect(await stage.db.query(`select from ${stage.sql('locks')}`)).toEqual([])
  })

  async function expectRefused(ask: () => Promise<unknown>, says: RegExp): Promise<void> {
    const [outcome] = await Promise.allSettled([ask()])
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'bad_option' } })
    expect((outcome as PromiseRejectedResult).reason).toBeInstanceOf(BadOptionError)
    expect((outcome as PromiseRejectedResult).reason.message).toMatch(says)
  }

  const options: Record<string, [given: object | null, says: RegExp]> = {
    'a mode that is none': [{ mode: 'read' }, /^mode: want 'exclusive' or 'shared'/],
    'the mode of permits': [{ mode: 'permits' }, /^(mode|permits)/],
    'a mode that is null': [{ mode: null }, /^mode/],
    'a reentrant that is null': [{ reentrant: null }, /^reentrant/],
    'permits of a lock': [{ permits: 1 }, /^permits: a lock has none/],
    'reentrant that is no boolean': [{ reentrant: 'yes' }, /^reentrant: want true or false/],
    'a negative lockDelay': [{ lockDelay: -1 }, /^lockDelay/],
    'a lockDelay over a day': [{ lockDelay: '25h' }, /^lockDelay/],
    'a lockDelay in words': [{ lockDelay: 'long' }, /^lockDelay/],
    'a lockDelay that is no number': [{ lockDelay: Number.NaN }, /^lockDelay/],
    'a lockDelay of a shared lock': [{ mode: 'shared', lockDelay: '1s' }, /^lockDelay: only an exclusive/],
    null: [null, /^options: want an object/],
    'a string': ['shared' as unknown as object, /^options: want an object/],
  }
  test.each(Object.entries(options))('options of a lock: %s', async (_, [given, says]) => {
    const bad = given as AcquireOptions
    await expectRefused(() => client.acquire('k', bad), says)
    await expectRefused(() => client.tryAcquire('k', bad), says)
    await expectRefused(() => client.tryAcquire(['k', 'l'], bad), says)
    await expectRefused(() => client.withLock('k', bad, () => 1), says)
  })

  test('a lockDelay of nothing is none, also of a shared lock; mode and reentrant may be undefined', async () => {
    const none = { mode: undefined, reentrant: undefined, lockDelay: undefined }
    for (const each of [{ mode: 'shared', lockDelay: 0 }, { lockDelay: '0ms' }, none] as AcquireOptions[])
      await (await client.acquire('k', each)).release()
    await client.close()
  })

  test.each([0, -1, 1.5, Number.NaN, Infinity, 2 ** 31, '2', null, undefined, 2n, {}])(
    'a semaphore of %s permits',
    permits => {
      expect(() => client.semaphore('s', { permits } as unknown as SemaphoreOptions)).toThrow(BadOptionError)
    },
  )

  test('a semaphore without options, or with a name that is none', () => {
    const semaphore = client.semaphore.bind(client) as (...values: unknown[]) => unknown
    expect(() => semaphore('s')).toThrow(BadOptionError)
    expect(() => semaphore('s', null)).toThrow(BadOptionError)
    expect(() => semaphore('s', 3)).toThrow(BadOptionError)
    for (const name of ['', 'a\0b', 'x'.repeat(1_001), undefined, null, 5, ['a'], ['a', 'b'], {}])
      expect(() => semaphore(name, { permits: 2 })).toThrow(BadKeyError)
  })

  const permitOptions: Record<string, [given: object | null, says: RegExp]> = {
    'more permits than there are': [{ permits: 3 }, /^permits: want a whole number from 1 to 2/],
    none: [{ permits: 0 }, /^permits/],
    'a negative number': [{ permits: -1 }, /^permits/],
    'half of one': [{ permits: 0.5 }, /^permits/],
    'a number as text': [{ permits: '1' }, /^permits/],
    'null permits': [{ permits: null }, /^permits/],
    'a mode': [{ mode: 'shared' }, /^mode: permits have none/],
    'a lockDelay': [{ lockDelay: '1s' }, /^lockDelay/],
    'a ttl in words': [{ ttl: 'soon' }, /^ttl/],
    null: [null, /^options: want an object/],
  }
  test.each(Object.entries(permitOptions))('options of permits: %s', async (_, [given, says]) => {
    const semaphore = client.semaphore('s', { permits: 2 })
    const bad = given as PermitOptions
    await expectRefused(() => semaphore.acquire(bad), says)
    await expectRefused(() => semaphore.tryAcquire(bad), says)
    await expectRefused(() => semaphore.withPermits(bad, () => 1), says)
  })

  test('a section that is none', async () => {
    const semaphore = client.semaphore('s', { permits: 2 })
    const withPermits = semaphore.withPermits.bind(semaphore) as (...values: unknown[]) => Promise<unknown>
    for (const values of [[], [{}], [{}, 'section'], [undefined, undefined], [{ permits: 2 }, null]])
      await expect(withPermits(...values)).rejects.toThrow(BadOptionError)
    const withLock = client.withLock.bind(client) as (...values: unknown[]) => Promise<unknown>
    await expect(withLock(['a', 'b'], {})).rejects.toThrow(BadOptionError)
  })

  test('several keys, shared', async () => {
    await expectRefused(() => client.acquire(['a', 'b'], { mode: 'shared' }), /^mode: several keys/)
    await expectRefused(() => client.tryAcquire(['a', 'b'], { mode: 'shared' }), /^mode: several keys/)
  })

  test.each([
    ['none', []],
    ['a hundred and one', Array.from({ length: 101 }, (_, i) => `key ${i}`)],
    ['one that is empty', ['a', '']],
    ['one that is no text', ['a', 5]],
    ['one with a NUL', ['a', 'b\0']],
    ['a hole', Array.from({ length: 2 })],
    ['a list in a list', ['a', ['b', 'c']]],
    ['one that is too long', ['a', 'x'.repeat(1_001)]],
  ])('several keys: %s', async (_, keys) => {
    const bad = keys as string[]
    for (const ask of [
      () => client.acquire(bad),
      () => client.tryAcquire(bad),
      () => client.withLock(bad, () => 1),
    ]) {
      const [outcome] = await Promise.allSettled([ask()])
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'bad_key' } })
      expect((outcome as PromiseRejectedResult).reason).toBeInstanceOf(BadKeyError)
    }
  })
})
