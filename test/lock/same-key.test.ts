import { describe, expect, test } from 'vitest'
import { AlreadyHeldError, type Lock } from '../../src/index.ts'
import { Gate } from '../conformance/gate.ts'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'

describe('the same key again, under the section that has it', () => {
  const stage = new Stage(ways['a pool'])
  const reentrant = { reentrant: true } as const

  /** The line of this file on which an error was made, first of all in its stack. */
  const placeOf = (error: unknown): string =>
    String((error as Error).stack)
      .split('\n')
      .filter(line => /same-key\.test/.test(line))[0] ?? ''

  /** The line that called this. */
  const here = (): number => Number(/same-key\.test\.ts:(\d+)/.exec(placeOf(new HereError()))?.[1])
  class HereError extends Error {
    constructor() {
      super()
      Error.captureStackTrace(this, here)
    }
  }

  test.each([
    ['acquire', (client, key) => client.acquire(key)],
    ['tryAcquire', (client, key) => client.tryAcquire(key)],
    ['withLock', (client, key) => client.withLock(key, () => 'ran')],
    ['acquire of several', (client, key) => client.acquire([key, 'other'])],
    ['tryAcquire of a list of one', (client, key) => client.tryAcquire([key])],
  ] satisfies [string, (client: ReturnType<Stage['client']>, key: string) => Promise<unknown>][])(
    '%s fails at once, and names where it was taken',
    async (_, again) => {
      const client = stage.client()
      let taken = 0
      const outer = () => {
        taken = here() + 1
        return client.withLock('k', async lock => {
          const [outcome] = await Promise.allSettled([again(client, 'k')])
          expect(lock.state).toBe('held')
          expect(await stage.waiting('k')).toBe(0)
          return outcome
        })
      }
      const outcome = await outer()
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'already_held' } })
      const { reason } = outcome as PromiseRejectedResult
      expect(reason).toBeInstanceOf(AlreadyHeldError)
      expect(reason.key).toContain('k')
      expect(placeOf(reason.cause)).toContain(`same-key.test.ts:${taken}`)
      expect(reason.cause.message).toContain('was taken here')
      expect(await stage.keysInUse()).toEqual([])
    },
  )

  test('a semaphore: permits of its own would be waited for; the place is named', async () => {
    const client = stage.client()
    const semaphore = client.semaphore('s', { permits: 5 })
    const taken = here() + 1
    const outer = semaphore.withPermits({ permits: 1 }, () => semaphore.acquire())
    const [outcome] = await Promise.allSettled([outer])
    expect(outcome).toMatchObject({ reason: { code: 'already_held', key: 's' } })
    expect(placeOf((outcome as PromiseRejectedResult).reason.cause)).toContain(`same-key.test.ts:${taken}`)
    const options = { reentrant: true } as object
    const again = semaphore.withPermits(() => semaphore.withPermits(options, () => 1))
    await expect(again).rejects.toMatchObject({ code: 'already_held' })
    await expect(semaphore.withPermits(() => client.acquire('s', reentrant))).rejects.toMatchObject({
      code: 'already_held',
    })
    await expect(
      client.withLock('k', () => client.semaphore('k', { permits: 1 }).tryAcquire()),
    ).rejects.toMatchObject({ code: 'already_held' })
  })

  test('reentrant: the same lock once more, released with the last', async () => {
    const [client, other] = [stage.client(), stage.client()]
    await client.withLock('k', async outer => {
      const { token } = outer
      await client.withLock('k', reentrant, async inner => {
        expect([inner, inner.token]).toEqual([outer, token])
        const byHand = await client.acquire('k', reentrant)
        const tried = await client.tryAcquire('k', reentrant)
        expect([byHand, tried]).toEqual([outer, outer])
        expect(await byHand.release()).toBe('released')
        expect(await byHand.release()).toBe('released')
        expect(outer.state).toBe('held')
      })
      expect([outer.state, outer.token]).toEqual(['held', token])
      expect(await stage.holders('k')).toEqual([stage.ownerOf(client)])
      expect(await other.tryAcquire('k')).toBeNull()
    })
    expect((await other.tryAcquire('k'))?.state).toBe('held')
  })

  test('reentrant where it is not held is an acquire as any', async () => {
    const [client, other] = [stage.client(), stage.client()]
    const lock = await client.acquire('k', reentrant)
    expect(await client.tryAcquire('k', reentrant)).toBeNull()
    expect(await other.tryAcquire('k', reentrant)).toBeNull()
    expect(await lock.release()).toBe('released')
    expect(await client.withLock('k', reentrant, ({ state }) => state)).toBe('held')
  })

  test('shared within shared is; exclusive within shared is not, nor the other way round', async () => {
    const client = stage.client()
    const shared = { mode: 'shared', reentrant: true } as const
    await client.withLock('k', shared, async outer => {
      expect(await client.acquire('k', shared)).toBe(outer)
      await outer.release()
      expect(outer.state).toBe('held')
      for (const ask of [client.acquire('k', reentrant), client.tryAcquire('k', reentrant)])
        await expect(ask).rejects.toMatchObject({ code: 'already_held' })
    })
    await client.withLock('k', async () => {
      await expect(client.acquire('k', shared)).rejects.toMatchObject({
        code: 'already_held',
        message: expect.stringContaining('which covers it'),
      })
    })
    const downgraded = client.withLock('k', async outer => {
      await outer.downgrade()
      expect(await client.acquire('k', shared)).toBe(outer)
      await outer.release()
      return await client.acquire('k', reentrant)
    })
    await expect(downgraded).rejects.toMatchObject({ code: 'already_held' })
  })

  test('several keys are not entered again, one by one or together', async () => {
    const client = stage.client()
    await client.withLock(['a', 'b'], async () => {
      for (const ask of [
        client.acquire('a', reentrant),
        client.acquire(['a', 'b'], reentrant),
        client.acquire(['b', 'c'], reentrant),
        client.acquire('b'),
      ])
        await expect(ask).rejects.toMatchObject({ code: 'already_held' })
      expect((await client.acquire(['c', 'd'])).state).toBe('held')
    })
  })

  test('siblings under Promise.all exclude each other', async () => {
    const client = stage.client()
    let [inside, most] = [0, 0]
    const section = async () => {
      inside += 1
      most = Math.max(most, inside)
      await new Promise(setImmediate)
      inside -= 1
    }
    const siblings = (options: object) =>
      Promise.all(Array.from({ length: 5 }, () => client.withLock('k', options, section)))
    await siblings({})
    await siblings(reentrant)
    await client.withLock('outer', async () => {
      await siblings({})
      await siblings(reentrant)
    })
    expect(most).toBe(1)
  })

  test('siblings who ask by hand exclude each other as well, also in a section', async () => {
    const client = stage.client()
    const order: string[] = []
    await client.withLock('outer', async () => {
      await Promise.all(
        ['one', 'two', 'three'].map(async name => {
          const lock = await client.acquire('k', reentrant)
          order.push(`${name} in`)
          await new Promise(setImmediate)
          order.push(`${name} out`)
          await lock.release()
        }),
      )
    })
    expect(order.filter((_, i) => i % 2 === 0).map(entry => entry.replace(' in', ' out'))).toEqual(
      order.filter((_, i) => i % 2 === 1),
    )
    expect(order).toHaveLength(6)
  })

  test('an inner section that is not awaited keeps the lock until it has ended', async () => {
    const [client, other] = [stage.client(), stage.client()]
    const gate = new Gate()
    let inner: Promise<string> | undefined
    let lock: Lock | undefined
    await client.withLock('k', outer => {
      lock = outer
      inner = client.withLock('k', reentrant, async held => {
        await gate.opened
        return held.state
      })
    })
    expect(lock?.state).toBe('held')
    expect(await other.tryAcquire('k')).toBeNull()
    gate.open()
    expect(await inner).toBe('held')
    expect(lock?.state).toBe('released')
    expect((await other.tryAcquire('k'))?.state).toBe('held')
  })

  test('what goes on after the section has ended asks as anybody', async () => {
    const [client, other] = [stage.client(), stage.client()]
    const gate = new Gate()
    let late: Promise<Lock | null> | undefined
    await client.withLock('k', () => {
      late = gate.opened.then(() => client.tryAcquire('k', reentrant))
    })
    const lock = await other.acquire('k')
    gate.open()
    expect(await late).toBeNull()
    await lock.release()
  })

  test('a section that gave its lock back, or lost it, may ask again', async () => {
    const client = stage.client()
    await client.withLock('k', async lock => {
      await lock.release()
      const again = await client.acquire('k', { timeout: '10s' })
      expect(again).not.toBe(lock)
      await again.release()
    })
    const losing = client.withLock('k', async lock => {
      await stage.bury(client)
      await lock.renew().catch(() => {})
      return (await client.acquire('k')).state
    })
    await expect(losing).rejects.toMatchObject({ code: 'lost', reason: 'expired' })
    expect(await stage.holders('k')).toHaveLength(1)
  })

  test('through sections of other keys in between, and not in a sibling of the section', async () => {
    const client = stage.client()
    await client.withLock('a', async a => {
      await client.withLock('b', async () => {
        await expect(client.acquire('a')).rejects.toMatchObject({ code: 'already_held', key: 'a' })
        expect(await client.acquire('a', reentrant)).toBe(a)
        await a.release()
      })
      expect((await client.tryAcquire('b'))?.state).toBe('held')
    })
    expect(await client.tryAcquire('b')).toBeNull()
  })

  test('another client knows nothing of it, and waits', async () => {
    const [client, other] = [stage.client(), stage.client()]
    await client.withLock('k', async () => {
      expect(await other.tryAcquire('k', reentrant)).toBeNull()
    })
  })
})
