import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type AcquireOptions, BadKeyError, BadOptionError, Fencepost } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { expectNothingLeft } from '../support/leftovers.ts'
import { clientOptions } from '../support/twist.ts'

let db: TestDatabase
let client: Fencepost
beforeAll(async () => {
  db = await createDatabase()
})
afterAll(() => db.drop())

// Arguments travel as parameters in the one, as JSON in the other.
describe.each([
  ['listening', {}],
  ['without listening', { listen: false }],
])('%s', (_, options) => {
  beforeAll(async () => {
    client = new Fencepost({ ...clientOptions(db), namespace: 'ns', ...options })
    await client.withLock('warm', () => {})
  })
  afterAll(async () => {
    await client.close()
    await expectNothingLeft(db.pool({ max: 1 }), db.schema)
  })
  describe('keys', badKeys)
  describe('options', badOptions)
})

/** Asks in each way for a key, beside two good requests of the same batch. Those are granted, whatever the bad one is. */
async function expectRefused(
  key: unknown,
  options: object,
  error: new (...values: never[]) => Error,
  code: string,
): Promise<void> {
  const good = Promise.allSettled(['good', 'better'].map(each => client.acquire(each)))
  const given = [key as string, options as AcquireOptions] as const
  const bad: Promise<unknown>[] = [
    client.acquire(...given).then(lock => lock.release()),
    client.withLock(...given, () => 'ran'),
  ]
  // A try has no timeout to be wrong.
  if (!('timeout' in options)) bad.push(client.tryAcquire(...given).then(lock => lock?.release()))
  const outcomes = await Promise.allSettled(bad)
  const released = (await good).map(async granted =>
    granted.status === 'fulfilled' ? await granted.value.release() : granted.reason,
  )
  expect(await Promise.all(released)).toEqual(['released', 'released'])
  for (const outcome of outcomes) {
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code } })
    expect((outcome as PromiseRejectedResult).reason).toBeInstanceOf(error)
  }
}

function badKeys(): void {
  const keys = {
    empty: '',
    'with a NUL': 'a\0b',
    'with half a surrogate pair': 'a\ud800',
    'of 998 bytes with a namespace of 2 and a colon': 'x'.repeat(998),
    'of 333 three-byte characters': '語'.repeat(333),
    undefined: undefined,
    null: null,
    'a number': 5,
    'a bigint': 5n,
    'a symbol': Symbol('key'),
    'an object': {},
    'an object without a prototype': Object.create(null),
    'no key of several': [],
    'several, of which one is none': ['a', 5],
    'several, of which one is empty': ['a', ''],
    'a String object': Object('a'),
  }
  test.each(Object.entries(keys))('%s: refused', async (_, key) => {
    await expectRefused(key, {}, BadKeyError, 'bad_key')
  })

  test('of exactly 1,000 bytes with its namespace: taken', async () => {
    const lock = await client.acquire('x'.repeat(997))
    expect(lock.state).toBe('held')
    await lock.release()
  })
}

function badOptions(): void {
  const cyclic: Record<string, unknown> = {}
  cyclic.self = cyclic
  const options: Record<string, AcquireOptions | object> = {
    'a ttl of 0': { ttl: 0 },
    'a negative ttl': { ttl: -5_000 },
    'a ttl that is no number': { ttl: Number.NaN },
    'a ttl without end': { ttl: Number.POSITIVE_INFINITY },
    'a ttl under a second': { ttl: '999ms' },
    'a ttl over max_ttl': { ttl: '61s' },
    'a ttl over what any schema allows': { ttl: '2d' },
    'a ttl in words': { ttl: 'soon' },
    'an empty ttl': { ttl: '' },
    'a negative timeout': { timeout: -1 },
    'a timeout that is no number': { timeout: Number.NaN },
    'a timeout in words': { timeout: 'soon' },
    'an empty timeout': { timeout: '' },
    'a timeout that is null': { timeout: null },
    'a signal that is none': { signal: {} },
    'a controller for a signal': { signal: new AbortController() },
    'a label that is too long': { label: 'x'.repeat(201) },
    'a label with a NUL': { label: 'a\0b' },
    'a label with half a surrogate pair': { label: 'a\ud800' },
    'a label that is no text': { label: 5 },
    'metadata that is too long': { metadata: 'x'.repeat(1_000) },
    'metadata with a NUL': { metadata: { text: 'a\0b' } },
    'metadata with half a surrogate pair': { metadata: { text: 'a\ud800' } },
    'metadata with half a surrogate pair in a name': { metadata: { 'a\udc00': 1 } },
    'metadata with a cycle': { metadata: cyclic },
    'metadata that is a function': { metadata: () => {} },
    'metadata with a bigint': { metadata: 5n },
  }
  test.each(Object.entries(options))('%s: refused', async (_, each) => {
    await expectRefused('bad', each, BadOptionError, 'bad_option')
  })

  test('metadata that only looks like a NUL is kept', async () => {
    const metadata = { text: '\\u0000', path: 'c:\\users' }
    const lock = await client.acquire('k', { metadata })
    expect(lock.metadata).toEqual(metadata)
    await lock.release()
  })

  test('a timeout longer than timers can count is a wait without end, not one of no time', async () => {
    const lock = await client.acquire('k')
    const waiters = [client.acquire('k', { timeout: '300d' }), client.acquire('k', { timeout: Infinity })]
    expect(await Promise.race([...waiters, client.tryAcquire('k')])).toBeNull()
    await lock.release()
    for (const waiter of waiters) await (await waiter).release()
  })

  test('a section that is none: nothing is taken', async () => {
    const withLock = client.withLock.bind(client) as (...values: unknown[]) => Promise<unknown>
    for (const values of [['k'], ['k', {}], ['k', {}, 'section'], ['k', undefined, undefined]]) {
      await expect(withLock(...values)).rejects.toThrow(BadOptionError)
    }
    const lock = await client.tryAcquire('k')
    expect(lock?.state).toBe('held')
    await lock?.release()
  })

  test('a close with a timeout out of bounds closes nothing', async () => {
    await expect(client.close({ timeout: -1 })).rejects.toThrow(BadOptionError)
    const lock = await client.acquire('k')
    await lock.release()
  })
}
