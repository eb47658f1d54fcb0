import { expect, test } from 'vitest'
import type { Lock } from '../../../src/index.ts'
import { isRising } from '../rising.ts'
import type { Stage } from '../stage.ts'

export function exclusion(stage: Stage): void {
  test('what one client holds, another does not get', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const lock = await one.acquire('k')
    expect(lock.state).toBe('held')
    expect(await other.tryAcquire('k')).toBeNull()
    expect(await one.tryAcquire('k')).toBeNull()
    const token = stage.token(lock)
    await lock.release()
    const next = (await other.tryAcquire('k')) as Lock
    expect(next.state).toBe('held')
    expect(stage.token(next)).toBeGreaterThan(token)
    expect(stage.token(lock)).toBe(token)
  })

  test('three clients with five callers each: never two inside, tokens rise in the order of entry', async () => {
    const tokens: bigint[] = []
    let inside = 0
    let most = 0
    const section = async (lock: Lock) => {
      inside++
      most = Math.max(most, inside)
      tokens.push(stage.token(lock))
      await new Promise(setImmediate)
      inside--
    }
    const clients = [stage.client(), stage.client(), stage.client()]
    const callers = clients.flatMap(client => Array.from({ length: 5 }, () => client))
    await Promise.all(
      callers.map(async client => {
        for (let round = 0; round < 3; round++) await client.withLock('k', section)
      }),
    )
    expect(most).toBe(1)
    expect(tokens).toHaveLength(45)
    expect(isRising(tokens)).toBe(true)
  })

  test('tokens rise, whoever is granted and however', async () => {
    const clients = [stage.client(), stage.client()]
    const tokens: bigint[] = []
    for (let round = 0; round < 5; round++) {
      for (const client of clients) {
        const lock = round % 2 === 0 ? await client.acquire('k') : await client.tryAcquire('k')
        if (lock) tokens.push(stage.token(lock))
        await lock?.release()
      }
    }
    expect(tokens).toHaveLength(10)
    expect(isRising(tokens)).toBe(true)
  })

  test('the same key twice in one batch: the second waits for the first', async () => {
    const client = stage.client()
    const [asked, askedNext] = [client.acquire('k'), client.acquire('k')]
    const first = await asked
    await stage.queued('k', 1)
    const token = stage.token(first)
    await first.release()
    const second = await askedNext
    expect([first.state, second.state]).toEqual(['released', 'held'])
    expect(stage.token(second)).toBeGreaterThan(token)
  })

  test('the same key tried twice in one batch: one gets it', async () => {
    const client = stage.client()
    const locks = await Promise.all([client.tryAcquire('k'), client.tryAcquire('k')])
    expect(locks.map(lock => lock?.state)).toEqual(['held', undefined])
  })

  test('a thousand keys at once', async () => {
    const client = stage.client()
    const keys = Array.from({ length: 1_000 }, (_, i) => `key ${i}`)
    const locks = await Promise.all(keys.map(key => client.acquire(key)))
    expect(new Set(locks.map(lock => stage.token(lock))).size).toBe(1_000)
    const held = await stage.db.query<{ key: string; token: string }>(
      `select key, token from ${stage.sql('held')} where owner = $1 and not released and key = any ($2)`,
      [stage.ownerOf(client), keys],
    )
    expect(new Map(held.map(({ key, token }) => [key, BigInt(token)]))).toEqual(
      new Map(locks.map((lock, i) => [keys[i], stage.token(lock)])),
    )
    const outcomes = await Promise.all(locks.map(lock => lock.release()))
    expect(new Set(outcomes)).toEqual(new Set(['released']))
    expect(await stage.keysInUse()).toEqual([])
  })

  test('keys are compared byte for byte', async () => {
    const client = stage.client()
    const keys = ['a', 'A', ' a', 'a ', '\u00e9', 'e\u0301', '🔒', '%', "'", '\\', '\n', 'x'.repeat(1_000)]
    const locks = await Promise.all(keys.map(key => client.tryAcquire(key)))
    expect(locks.map(lock => lock?.key)).toEqual(keys.map(key => stage.named(key)))
    const other = stage.client()
    expect(await Promise.all(keys.map(key => other.tryAcquire(key)))).toEqual(keys.map(() => null))
  })

  test('a namespace is part of the key', async () => {
    const [one, other] = [stage.client({ namespace: 'one' }), stage.client({ namespace: 'other' })]
    const locks = await Promise.all([one.tryAcquire('k'), other.tryAcquire('k')])
    expect(locks.map(lock => lock?.key)).toEqual([stage.named('one:k'), stage.named('other:k')])
    expect(await stage.holders('one:k')).toEqual([stage.ownerOf(one)])
    expect(await stage.client().tryAcquire('one:k')).toBeNull()
    expect(await stage.client({ namespace: 'one' }).tryAcquire('k')).toBeNull()
  })
}
