import { expect, test } from 'vitest'
import { type Lock, LockTimeoutError, LostError } from '../../../src/index.ts'
import type { Stage } from '../stage.ts'

/** What `withLock` does with the section that it runs. */
export function sections(stage: Stage): void {
  test('answers what the section answers, and holds the lock meanwhile', async () => {
    const [client, other] = [stage.client(), stage.client()]
    let inside: Lock | undefined
    const answer = await client.withLock('k', async lock => {
      inside = lock
      expect(lock.state).toBe('held')
      expect(await other.tryAcquire('k')).toBeNull()
      return 'an answer'
    })
    expect([answer, inside?.state]).toEqual(['an answer', 'released'])
    expect(await client.withLock('k', () => 1)).toBe(1)
    expect(await client.withLock('k', { label: 'what for' }, lock => lock.label)).toBe('what for')
    expect(await stage.holders('k')).toEqual([])
  })

  test('passes on what the section throws, and releases', async () => {
    const client = stage.client()
    const error = new Error('of the section')
    const rejecting = client.withLock('k', () => Promise.reject(error))
    await expect(rejecting).rejects.toBe(error)
    const throwing = client.withLock('k', () => {
      throw error
    })
    await expect(throwing).rejects.toBe(error)
    expect(await stage.holders('k')).toEqual([])
  })

  test('passes on what is thrown that is no error', async () => {
    const client = stage.client()
    await expect(client.withLock('k', () => Promise.reject())).rejects.toBeUndefined()
    expect(await stage.holders('k')).toEqual([])
  })

  test('the error of the section is not masked by a loss', async () => {
    const client = stage.client()
    const error = new Error('of the section')
    const section = client.withLock('k', async lock => {
      await stage.bury(client)
      await expect(lock.renew()).rejects.toThrow(LostError)
      throw error
    })
    await expect(section).rejects.toBe(error)
  })

  test('a section that outlived its lock is told', async () => {
    const client = stage.client()
    const section = client.withLock('k', async lock => {
      await stage.bury(client)
      await lock.renew().catch(() => {})
      return 'not to be believed'
    })
    await expect(section).rejects.toThrow(LostError)
    await expect(section).rejects.toMatchObject({ code: 'lost', reason: 'expired', key: stage.named('k') })
  })

  test('a section may release its lock itself', async () => {
    expect(await stage.client().withLock('k', lock => lock.release())).toBe('released')
  })

  test('a lock that is not to be had: the section does not run', async () => {
    const lock = await stage.client().acquire('k')
    let ran = false
    const section = stage.client().withLock('k', { timeout: 0 }, () => {
      ran = true
    })
    await expect(section).rejects.toThrow(LockTimeoutError)
    expect(ran).toBe(false)
    await lock.release()
  })
}
