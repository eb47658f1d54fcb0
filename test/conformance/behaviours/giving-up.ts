import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { AbortedError, LockTimeoutError } from '../../../src/index.ts'
import type { Stage } from '../stage.ts'
import { timersOf } from '../timers.ts'

export function givingUp(stage: Stage): void {
  const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length
  const sessions = async () => (await stage.db.query(`select from ${stage.sql('sessions')}`)).length

  test('a timeout of 0 is one attempt', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const lock = await one.acquire('k', { timeout: 0 })
    const refused = other.acquire('k', { timeout: 0 })
    await expect(refused).rejects.toThrow(LockTimeoutError)
    await expect(refused).rejects.toMatchObject({ code: 'timed_out', key: stage.named('k'), timeout: 0 })
    expect(await stage.waiting('k')).toBe(0)
    await lock.release()
    expect((await other.acquire('k', { timeout: 0 })).state).toBe('held')
  })

  test('a timeout gives the place in line up', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const lock = await one.acquire('k')
    const began = performance.now()
    const refused = other.acquire('k', { timeout: '50ms' })
    await expect(refused).rejects.toMatchObject({ code: 'timed_out', key: stage.named('k'), timeout: 50 })
    expect(performance.now() - began).toBeGreaterThanOrEqual(49)
    expect(await stage.waiting('k')).toBe(0)
    await lock.release()
    expect(await stage.holders('k')).toEqual([])
  })

  test('a signal aborted before: nothing is asked for', async () => {
    const client = stage.client()
    const signal = AbortSignal.abort(new Error('enough'))
    const before = await sessions()
    for (const ask of [() => client.acquire('k', { signal }), () => client.tryAcquire('k', { signal })]) {
      const [outcome] = await Promise.allSettled([ask()])
      expect(outcome).toMatchObject({
        reason: { code: 'aborted', key: stage.named('k'), cause: signal.reason },
      })
      expect((outcome as PromiseRejectedResult).reason).toBeInstanceOf(AbortedError)
    }
    expect(listeners(signal)).toBe(0)
    expect(await sessions()).toBe(before)
  })

  test('an abort in the same turn: nothing is taken', async () => {
    const client = stage.client()
    const controller = new AbortController()
    const refused = client.acquire('k', { signal: controller.signal })
    controller.abort('enough')
    await expect(refused).rejects.toMatchObject({ code: 'aborted', cause: 'enough' })
    expect(listeners(controller.signal)).toBe(0)
    expect((await client.tryAcquire('k'))?.state).toBe('held')
  })

  test('an abort while waiting gives the place in line up; who is behind moves up', async () => {
    const [holder, client] = [stage.client(), stage.client()]
    const lock = await holder.acquire('k')
    const controller = new AbortController()
    const refused = client.acquire('k', { signal: controller.signal, timeout: '1m' })
    await stage.queued('k', 1)
    const behind = client.acquire('k', { timeout: '1m' })
    await stage.queued('k', 2)
    controller.abort(new Error('enough'))
    await expect(refused).rejects.toMatchObject({ code: 'aborted', cause: controller.signal.reason })
    expect(await stage.waiting('k')).toBe(1)
    expect(listeners(controller.signal)).toBe(0)
    await lock.release()
    expect((await behind).state).toBe('held')
  })

  test('an abort after the grant has no effect', async () => {
    const client = stage.client()
    const controller = new AbortController()
    const lock = await client.acquire('k', { signal: controller.signal, timeout: '1m' })
    expect(listeners(controller.signal)).toBe(0)
    controller.abort()
    expect([lock.state, lock.signal.aborted]).toEqual(['held', false])
    await lock.renew()
    expect(await stage.holders('k')).toEqual([stage.ownerOf(client)])
  })

  test('an abort that races the grant picks one outcome', async () => {
    const client = stage.client()
    await (await client.acquire('k')).release()
    const outcomes = new Set<string>()
    for (let round = 0; round < 40; round++) {
      const controller = new AbortController()
      const acquiring = client.acquire('k', { signal: controller.signal })
      for (let turn = 0; turn < round / 4; turn++) await new Promise(setImmediate)
      controller.abort()
      try {
        await (await acquiring).release()
        outcomes.add('granted')
      } catch (error) {
        expect(error).toBeInstanceOf(AbortedError)
        outcomes.add('aborted')
      }
      expect(await stage.keysInUse()).toEqual([])
      expect(listeners(controller.signal)).toBe(0)
    }
    expect(outcomes).toContain('aborted')
  })

  test('no timer is left of an acquire, however it ended', async () => {
    const timers = timersOf('/request.ts', '/line.ts', '/asker.ts', '/fencepost.ts')
    // One for all releases of a client.
    const perClient = timersOf('/returner.ts', '/callers.ts')
    const [one, other] = [stage.client(), stage.client()]
    const lock = await one.acquire('k', { timeout: '1m' })
    await expect(other.acquire('k', { timeout: 20 })).rejects.toThrow(LockTimeoutError)
    const controller = new AbortController()
    const aborted = other.acquire('k', { timeout: '1m', signal: controller.signal })
    await stage.queued('k', 1)
    controller.abort()
    await expect(aborted).rejects.toThrow(AbortedError)
    await lock.release()
    expect(await timers.alive()).toEqual([])
    expect((await perClient.alive()).length).toBeLessThanOrEqual(2)
  })
}
