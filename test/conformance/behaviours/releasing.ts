import { expect, test } from 'vitest'
import { LostError, NotHeldError } from '../../../src/index.ts'
import type { Stage } from '../stage.ts'

export function releasing(stage: Stage): void {
  test('released once, then already', async () => {
    const lock = await stage.client().acquire('k')
    expect(await lock.release()).toBe('released')
    expect(await stage.holders('k')).toEqual([])
    expect(await lock.release()).toBe('already')
    expect(await lock.release()).toBe('already')
  })

  test('of two at once, one releases', async () => {
    const lock = await stage.client().acquire('k')
    expect(await Promise.all([lock.release(), lock.release()])).toEqual(['released', 'already'])
    expect(await stage.holders('k')).toEqual([])
  })

  test('not held any more from the call on, before its answer', async () => {
    const lock = await stage.client().acquire('k')
    const { signal } = lock
    const token = stage.token(lock)
    const releasing = lock.release()
    expect([lock.state, lock.remaining, lock.lossReason]).toEqual(['released', 0, undefined])
    expect(() => lock.assertHeld()).toThrow(NotHeldError)
    await expect(lock.renew()).rejects.toMatchObject({ code: 'not_held', key: stage.named('k') })
    expect(await releasing).toBe('released')
    expect([stage.token(lock), signal.aborted]).toEqual([token, false])
  })

  test('after a loss it answers what happened', async () => {
    const client = stage.client()
    const lock = await client.acquire('k')
    await stage.bury(client)
    await expect(lock.renew()).rejects.toThrow(LostError)
    expect(await lock.release()).toBe('expired')
    expect(await lock.release()).toBe('expired')
  })

  test('a late release does not touch a newer grant', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const lock = await one.acquire('k')
    await stage.expire(one)
    const next = await other.acquire('k')
    // It does not know yet: the release goes to the database, and finds nothing of its own.
    expect(lock.state).toBe('held')
    await lock.release()
    expect(await stage.holders('k')).toEqual([stage.ownerOf(other)])
    await next.renew()
    expect(next.state).toBe('held')
  })

  test("a release of one session under a token of the same client's newer grant is refused", async () => {
    const client = stage.client()
    const lock = await client.acquire('k')
    await stage.bury(client)
    await expect(lock.renew()).rejects.toThrow(LostError)
    const next = await client.acquire('k')
    await lock.release()
    await next.renew()
    expect([lock.state, next.state]).toEqual(['lost', 'held'])
    const held = await stage.db.query(
      `select from ${stage.sql('held')} where key = 'k' and token = $1 and not released`,
      [stage.token(next)],
    )
    expect(held).toHaveLength(1)
  })

  test('disposing of it releases it', async () => {
    const client = stage.client()
    const lock = await client.acquire('k')
    await lock[Symbol.asyncDispose]()
    expect(lock.state).toBe('released')
    expect(await stage.holders('k')).toEqual([])
  })
}
