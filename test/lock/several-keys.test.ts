import { describe, expect, test } from 'vitest'
import { BadOptionError, type Fencepost, type Lock } from '../../src/index.ts'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'
import { until } from '../support/until.ts'

describe.each(['a pool', 'a query function'] as const)('several keys, over %s', way => {
  const stage = new Stage(ways[way])

  async function join(client: Fencepost, keys: string[], options = {}): Promise<{ granted: Promise<Lock> }> {
    const granted = client.acquire(keys, options)
    granted.catch(() => {})
    await until(async () => {
      const rows = await stage.db.query(
        `select from ${stage.sql('pending')} where owner = $1 and key = any ($2)`,
        [stage.ownerOf(client), keys],
      )
      return rows.length === keys.length
    })
    return { granted }
  }

  test('one handle, one signal, a token for each', async () => {
    const [client, other] = [stage.client(), stage.client()]
    const lock = await client.acquire(['c', 'a', 'b'], { label: 'three' })
    expect([lock.key, lock.label, lock.mode, lock.state]).toEqual(['a, b, c', 'three', 'exclusive', 'held'])
    expect([...lock.tokens.keys()]).toEqual(['a', 'b', 'c'])
    expect(new Set(lock.tokens.values()).size).toBe(3)
    const held = await stage.db.query<{ key: string; token: string; label: string }>(
      `select key, token, label from ${stage.sql('held')} order by key`,
    )
    expect(held).toEqual(
      [...lock.tokens].map(([key, token]) => ({ key, token: String(token), label: 'three' })),
    )
    for (const key of ['a', 'b', 'c']) expect(await other.tryAcquire(key)).toBeNull()
    expect(lock.signal).toBe(lock.signal)
    await lock.renew()
    expect(await lock.release()).toBe('released')
    expect(await lock.release()).toBe('already')
    expect(await stage.keysInUse()).toEqual([])
  })

  test('what has one key does not with several: token, level, guards', async () => {
    const lock = await stage.client().acquire(['a', 'b'])
    expect(() => lock.token).toThrow(BadOptionError)
    expect(() => lock.level).toThrow(BadOptionError)
    await expect(lock.transaction(() => 1)).rejects.toThrow(BadOptionError)
    await expect(lock.guard({ query: async () => ({ rows: [] }) })).rejects.toThrow(BadOptionError)
    expect(lock.state).toBe('held')
  })

  test('while one of them is taken none is held, and once it is free all are', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const lock = await one.acquire('b')
    const { token } = lock
    const waiter = await join(other, ['a', 'b', 'c'])
    expect(await stage.holders('a')).toEqual([])
    await lock.release()
    const all = await waiter.granted
    expect([...all.tokens.keys()]).toEqual(['a', 'b', 'c'])
    expect(all.tokens.get('b')).toBeGreaterThan(token)
    for (const key of ['a', 'b', 'c']) expect(await stage.holders(key)).toEqual([stage.ownerOf(other)])
  })

  test('they wait for each key in line: for readers, for others that are wide, and nobody passes', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const reader = await one.acquire('a', { mode: 'shared' })
    const pair = await one.acquire(['b', 'c'])
    const first = await join(other, ['a', 'b'])
    const second = await join(one, ['b', 'c'])
    expect(await one.tryAcquire('a', { mode: 'shared' })).toBeNull()
    await pair.release()
    expect(await stage.waiting('b')).toBe(2)
    await reader.release()
    const both = await first.granted
    expect(await stage.waiting('b')).toBe(1)
    await both.release()
    expect((await second.granted).state).toBe('held')
  })

  test('who is behind them in the line of one key waits, and comes after them', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const lock = await one.acquire('b')
    const wide = await join(other, ['a', 'b'])
    const narrow = await join(one, ['a'])
    await lock.release()
    const both = await wide.granted
    expect(await stage.waiting('a')).toBe(1)
    const before = both.tokens.get('a') as bigint
    await both.release()
    const next = await narrow.granted
    expect(next.key).toBe('a')
    expect(next.token).toBeGreaterThan(before)
  })

  test('a try takes all or none, and stays in no line', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const lock = await one.acquire('b')
    expect(await other.tryAcquire(['a', 'b', 'c'])).toBeNull()
    await expect(other.acquire(['c', 'b'], { timeout: 0 })).rejects.toMatchObject({
      code: 'timed_out',
      key: 'b, c',
      timeout: 0,
    })
    expect([await stage.keysInUse(), await stage.waiting('a')]).toEqual([['b'], 0])
    expect((await one.tryAcquire(['a', 'c']))?.state).toBe('held')
    await lock.release()
    expect((await other.tryAcquire(['b', 'd']))?.state).toBe('held')
  })

  test('a key twice in the list counts once; a list of one is a key as any', async () => {
    const client = stage.client()
    const pair = await client.acquire(['b', 'a', 'b'])
    expect([...pair.tokens.keys()]).toEqual(['a', 'b'])
    const single = await client.acquire(['c', 'c'], { mode: 'shared' })
    expect([single.key, single.mode, [...single.tokens]]).toEqual(['c', 'shared', [['c', single.token]]])
    await single.release()
    const plain = await client.acquire(['c'])
    expect([plain.key, plain.level]).toEqual(['c', plain.token])
    await plain.downgrade()
    expect(plain.mode).toBe('shared')
  })

  test('a namespace is part of each; a hundred are not too many', async () => {
    const client = stage.client({ namespace: 'n' })
    const keys = Array.from({ length: 100 }, (_, i) => `key ${i}`)
    const lock = await client.acquire(keys)
    expect([...lock.tokens.keys()]).toEqual(keys.map(key => `n:${key}`).sort())
    await expect(client.acquire([...keys, 'one more'])).rejects.toMatchObject({ code: 'bad_key' })
    await lock.release()
    expect(await stage.keysInUse()).toEqual([])
  })

  test('overlapping sets in one batch: each in turn, and in the end nothing is left', async () => {
    const client = stage.client()
    const sets = [
      ['a', 'b'],
      ['b', 'c'],
      ['c', 'a'],
      ['a', 'b', 'c'],
      ['d', 'a'],
    ]
    let inside: string[] = []
    const wrong: string[] = []
    await Promise.all(
      sets.map(keys =>
        client.withLock(keys, async () => {
          wrong.push(...keys.filter(key => inside.includes(key)))
          inside.push(...keys)
          await new Promise(setImmediate)
          inside = inside.filter(key => !keys.includes(key))
        }),
      ),
    )
    expect(wrong).toEqual([])
    expect(await stage.keysInUse()).toEqual([])
  })

  test('one key in a batch beside several keys with it in them', async () => {
    const [client, other] = [stage.client(), stage.client()]
    const held = [client.acquire('b'), client.acquire(['a', 'b']), client.acquire('a')]
    await (await held[0])?.release()
    await (await held[1])?.release()
    await (await held[2])?.release()
    expect((await other.tryAcquire(['a', 'b']))?.state).toBe('held')
  })
})
