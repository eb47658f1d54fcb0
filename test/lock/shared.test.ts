import { describe, expect, test } from 'vitest'
import type { Fencepost, Lock } from '../../src/index.ts'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'

describe('readers and writers in one line', () => {
  const stage = new Stage(ways['a pool'])
  const shared = { mode: 'shared' } as const

  /** Joins the line, and settles when the place is taken. */
  async function join(
    client: Fencepost,
    place: number,
    options = {},
  ): Promise<{ granted: Promise<Lock>; isGranted: () => boolean }> {
    let isGranted = false
    const granted = client.acquire('k', options)
    granted.then(
      () => {
        isGranted = true
      },
      () => {},
    )
    await stage.queued('k', place)
    return { granted, isGranted: () => isGranted }
  }

  test('readers hold a key together, each under a token of its own and all at one level', async () => {
    const clients = [stage.client(), stage.client(), stage.client()]
    const locks = await Promise.all(clients.map(client => client.acquire('k', shared)))
    expect(locks.map(({ state, mode }) => [state, mode])).toEqual(clients.map(() => ['held', 'shared']))
    expect(new Set(locks.map(lock => lock.token)).size).toBe(3)
    const levels = new Set(locks.map(lock => lock.level))
    expect(levels.size).toBe(1)
    const [level] = levels
    for (const { token } of locks) expect(token).toBeGreaterThan(level as bigint)
    expect((await stage.holders('k')).sort()).toEqual(clients.map(client => stage.ownerOf(client)).sort())
  })

  test.each([1, 3])('a writer in a batch with %i readers before it waits for them', async readers => {
    const client = stage.client()
    const reading = Array.from({ length: readers }, () => client.acquire('k', shared))
    const writing = client.acquire('k')
    const locks = await Promise.all(reading)
    await stage.queued('k', 1)
    for (const [i, lock] of locks.entries()) {
      expect(await stage.holders('k')).toHaveLength(readers - i)
      expect(await stage.waiting('k')).toBe(1)
      await lock.release()
    }
    expect((await writing).mode).toBe('exclusive')
    expect(await stage.holders('k')).toHaveLength(1)
  })

  test('a try for a writer, in a batch with a reader, finds the key taken', async () => {
    const client = stage.client()
    const [reader, writer] = await Promise.all([client.tryAcquire('k', shared), client.tryAcquire('k')])
    expect([reader?.mode, writer]).toEqual(['shared', null])
  })

  test('readers at the head are granted together, up to the next writer', async () => {
    const [holder, ...clients] = [stage.client(), stage.client(), stage.client()] as const
    const lock = await holder.acquire('k')
    const readers: Awaited<ReturnType<typeof join>>[] = []
    for (let i = 0; i < 6; i++) readers.push(await join(clients[i % 2] as Fencepost, i + 1, shared))
    const writer = await join(clients[0], 7)
    const behind = await join(clients[1], 8, shared)
    const { token } = lock
    await lock.release()
    const locks = await Promise.all(readers.map(({ granted }) => granted))
    expect(locks.map(({ level }) => level)).toEqual(locks.map(() => token))
    expect(await stage.holders('k')).toHaveLength(6)
    // In one pass: by one commit.
    expect(await stage.db.query(`select distinct xmin::text from ${stage.sql('holders')}`)).toHaveLength(1)
    expect(await stage.waiting('k')).toBe(2)
    expect([writer.isGranted(), behind.isGranted()]).toEqual([false, false])
    for (const reader of locks) await reader.release()
    const writing = await writer.granted
    expect([writing.mode, behind.isGranted(), await stage.waiting('k')]).toEqual(['exclusive', false, 1])
    const written = writing.token
    await writing.release()
    expect((await behind.granted).level).toBe(written)
  })

  test('a reader behind a waiting writer waits, and a try to read beside those who hold is refused', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const reader = await one.acquire('k', shared)
    const writer = await join(other, 1)
    expect(await one.tryAcquire('k', shared)).toBeNull()
    expect(await one.tryAcquire('k')).toBeNull()
    const behind = await join(one, 2, shared)
    expect(behind.isGranted()).toBe(false)
    await reader.release()
    const writing = await writer.granted
    expect([behind.isGranted(), await stage.waiting('k')]).toEqual([false, 1])
    await writing.release()
    expect((await behind.granted).mode).toBe('shared')
  })

  test('a writer who gives up lets in the readers that it kept waiting', async () => {
    const [one, other] = [stage.client(), stage.client()]
    await one.acquire('k', shared)
    const controller = new AbortController()
    const writer = await join(other, 1, { signal: controller.signal })
    const readers = [await join(one, 2, shared), await join(other, 3, shared)]
    controller.abort()
    await expect(writer.granted).rejects.toMatchObject({ code: 'aborted' })
    for (const { granted } of readers) expect((await granted).mode).toBe('shared')
    expect(await stage.holders('k')).toHaveLength(3)
  })

  test('a writer who dies in line lets in the readers that it kept waiting, beside those who hold', async () => {
    const [one, dying] = [stage.client(), stage.client({ ttl: '2s' })]
    const reader = await one.acquire('k', shared)
    const writer = await join(dying, 1)
    const behind = await join(one, 2, shared)
    await stage.bury(dying)
    expect((await behind.granted).mode).toBe('shared')
    expect(reader.state).toBe('held')
    await expect(writer.granted).rejects.toMatchObject({ code: 'lost', reason: 'expired' })
  })

  test('a writer is not starved by readers who come again and again', async () => {
    const [one, other] = [stage.client(), stage.client()]
    let isWritten = false
    let rounds = 0
    const reading = Array.from({ length: 6 }, async () => {
      while (!isWritten) {
        await one.withLock('k', shared, () => new Promise(setImmediate))
        rounds += 1
      }
    })
    const lock = await other.acquire('k')
    isWritten = true
    const before = rounds
    expect(await stage.holders('k')).toEqual([stage.ownerOf(other)])
    expect(rounds).toBe(before)
    await lock.release()
    await Promise.all(reading)
  })

  test('a mix of both, at random: never a writer beside anybody, and readers together', async () => {
    const clients = [stage.client(), stage.client()]
    let [reading, writing, mostReading] = [0, 0, 0]
    const wrong: string[] = []
    const section = async (lock: Lock) => {
      const isReader = lock.mode === 'shared'
      if (isReader) reading += 1
      else writing += 1
      if (writing > 1 || (writing === 1 && reading > 0)) wrong.push(`${writing} writing, ${reading} reading`)
      mostReading = Math.max(mostReading, reading)
      await new Promise(setImmediate)
      if (isReader) reading -= 1
      else writing -= 1
    }
    const callers = Array.from({ length: 12 }, async (_, i) => {
      for (let round = 0; round < 8; round++) {
        const mode = (i + round * 5) % 3 === 0 ? 'exclusive' : 'shared'
        await (clients[i % 2] as Fencepost).withLock('k', { mode }, section)
      }
    })
    await Promise.all(callers)
    expect(wrong).toEqual([])
    expect(mostReading).toBeGreaterThan(1)
  })

  test('what was released is asked for in the other mode at once: in line, and nothing is left', async () => {
    const [one, other] = [stage.client(), stage.client()]
    for (let round = 0; round < 3; round++) {
      const first = await other.acquire('k')
      const reader = await join(one, 1, shared)
      await first.release()
      const reading = await reader.granted
      // The key is known to be contended by now: what is given back and what is asked for may go in one call.
      const released = reading.release()
      const writing = await one.acquire('k')
      await released
      expect(writing.mode).toBe('exclusive')
      const next = one.acquire('k', shared)
      await writing.release()
      await (await next).release()
    }
    expect(await stage.keysInUse()).toEqual([])
  })
})
