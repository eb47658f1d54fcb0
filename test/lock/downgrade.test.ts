import { describe, expect, test } from 'vitest'
import { BadOptionError, type Lock, LostError, NotHeldError } from '../../src/index.ts'
import { Gate } from '../conformance/gate.ts'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'
import { until } from '../support/until.ts'

describe.each(['a pool', 'a query function'] as const)('downgrade, over %s', way => {
  const stage = new Stage(ways[way])
  const shared = { mode: 'shared' } as const

  const modes = async (): Promise<string[]> => {
    const rows = await stage.db.query<{ mode: string }>(
      `select mode from ${stage.sql('held')} where key = 'k' order by token`,
    )
    return rows.map(({ mode }) => mode)
  }

  test('lets in the readers who are next, and keeps the token', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const lock = await one.acquire('k')
    const { token } = lock
    const readers = [other.acquire('k', shared), one.acquire('k', shared)]
    await stage.queued('k', 2)
    const writer = other.acquire('k')
    await stage.queued('k', 3)
    await lock.downgrade()
    const reading = await Promise.all(readers)
    expect([lock.mode, lock.state, lock.token, lock.level]).toEqual(['shared', 'held', token, token])
    for (const reader of reading) {
      expect(reader.level).toBe(token)
      expect(reader.token).toBeGreaterThan(token)
    }
    expect(await modes()).toEqual(['shared', 'shared', 'shared'])
    expect(await stage.waiting('k')).toBe(1)
    await lock.renew()
    for (const held of [lock, ...reading]) expect(await held.release()).toBe('released')
    expect((await writer).token).toBeGreaterThan(token)
  })

  test('a newcomer reads beside it; a writer does not come in', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const lock = await one.acquire('k')
    expect(await other.tryAcquire('k', shared)).toBeNull()
    await lock.downgrade()
    expect((await other.tryAcquire('k', shared))?.state).toBe('held')
    expect(await other.tryAcquire('k')).toBeNull()
  })

  test('repeated, it does nothing more', async () => {
    const lock = await stage.client().acquire('k')
    await Promise.all([lock.downgrade(), lock.downgrade()])
    await lock.downgrade()
    expect([lock.mode, await modes()]).toEqual(['shared', ['shared']])
    expect(await lock.release()).toBe('released')
    expect(await stage.keysInUse()).toEqual([])
  })

  test('of a shared lock it does nothing; there is no way back up', async () => {
    const client = stage.client()
    const reader = await client.acquire('k', shared)
    await reader.downgrade()
    expect(reader.mode).toBe('shared')
    expect(Object.getOwnPropertyNames(Object.getPrototypeOf(reader))).not.toContain('upgrade')
    await reader.release()
    const upgrading = client.withLock('k', shared, () => client.acquire('k'))
    await expect(upgrading).rejects.toMatchObject({
      code: 'already_held',
      message: expect.stringContaining('two readers who both wanted more would wait for each other'),
    })
    const reentrant = client.withLock('k', shared, () => client.acquire('k', { reentrant: true }))
    await expect(reentrant).rejects.toMatchObject({ code: 'already_held' })
    expect(await stage.keysInUse()).toEqual([])
  })

  test('permits and several keys have no other mode', async () => {
    const client = stage.client()
    const permit = await client.semaphore('s', { permits: 2 }).acquire()
    const pair = await client.acquire(['a', 'b'])
    for (const lock of [permit, pair]) {
      await expect(lock.downgrade()).rejects.toThrow(BadOptionError)
      expect(lock.state).toBe('held')
      await lock.renew()
      expect(lock.state).toBe('held')
    }
  })

  test('of one in the middle of a run: who follows is next in line, under a higher token', async () => {
    const [holder, client] = [stage.client(), stage.client()]
    const first = await holder.acquire('k')
    const waiters = Array.from({ length: 4 }, () => client.acquire('k'))
    await stage.queued('k', 4)
    const reader = holder.acquire('k', shared)
    await stage.queued('k', 5)
    await first.release()
    const [passed, mine] = [(await waiters[0]) as Lock, waiters[1] as Promise<Lock>]
    // Within the process, where it can be: the first's token was not read.
    await passed.release()
    const lock = await mine
    await lock.downgrade()
    const { token } = lock
    expect([lock.mode, await modes(), await stage.waiting('k')]).toEqual(['shared', ['shared'], 3])
    await lock.renew()
    expect(lock.state).toBe('held')
    expect(await lock.release()).toBe('released')
    let last = token
    for (const waiter of waiters.slice(2)) {
      const next = await waiter
      expect([next.mode, next.token > last]).toEqual(['exclusive', true])
      last = next.token
      await next.release()
    }
    expect((await reader).level).toBeGreaterThanOrEqual(last)
  })

  test.skipIf(way === 'a query function')('not while a guarded transaction is open', async () => {
    const [client, other] = [stage.client(), stage.client()]
    const lock = await client.acquire('k')
    const gate = new Gate()
    const inside = new Gate()
    const transaction = lock.transaction(async () => {
      inside.open()
      await gate.opened
    })
    await inside.opened
    await expect(lock.downgrade()).rejects.toMatchObject({
      code: 'bad_option',
      message: expect.stringContaining('a guarded transaction is open'),
    })
    expect([lock.mode, await modes()]).toEqual(['exclusive', ['exclusive']])
    expect(await other.tryAcquire('k', shared)).toBeNull()
    gate.open()
    await transaction
    await lock.downgrade()
    expect((await other.tryAcquire('k', shared))?.state).toBe('held')
  })

  test('after a release, and after a loss', async () => {
    const client = stage.client()
    const released = await client.acquire('k')
    await released.release()
    await expect(released.downgrade()).rejects.toThrow(NotHeldError)
    const lost = await client.acquire('k')
    await stage.bury(client)
    await expect(lost.renew()).rejects.toThrow(LostError)
    await expect(lost.downgrade()).rejects.toMatchObject({ code: 'lost', reason: 'expired' })
  })

  test('of one that the database has taken meanwhile: lost', async () => {
    const [client, other] = [stage.client(), stage.client()]
    const lock = await client.acquire('k')
    await stage.expire(client)
    const next = await other.acquire('k')
    await expect(lock.downgrade()).rejects.toMatchObject({ code: 'lost', key: 'k' })
    expect(await modes()).toEqual(['exclusive'])
    await next.renew()
    expect(next.state).toBe('held')
  })

  test('racing its own release: one of the two, and nothing is left', async () => {
    const client = stage.client()
    for (let round = 0; round < 6; round++) {
      const lock = await client.acquire('k')
      const outcome = await Promise.allSettled(
        round % 2 === 0 ? [lock.downgrade(), lock.release()] : [lock.release(), lock.downgrade()],
      )
      for (const each of outcome) {
        if (each.status === 'rejected') expect(each.reason).toMatchObject({ code: 'not_held' })
      }
      expect(lock.state).toBe('released')
      await until(async () => (await stage.keysInUse()).length === 0)
    }
  })
})
