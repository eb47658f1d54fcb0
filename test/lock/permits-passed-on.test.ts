// Permits are passed on inside a process, without a call, to those who are next in line.
import { describe, expect, test } from 'vitest'
import type { Fencepost, Lock } from '../../src/index.ts'
import { Passing } from '../../src/lock/passing.ts'
import type { Request } from '../../src/lock/request.ts'
import { Gate } from '../conformance/gate.ts'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'
import { until } from '../support/until.ts'

describe('permits passed on', () => {
  const stage = new Stage(ways['a query function'])

  /** A client, and the calls of it so far, by function. */
  function counted(options: { poll?: string } = {}) {
    const calls: string[] = []
    const database = stage.way.options.pool as { query: (text: string, values: unknown[]) => Promise<never> }
    const query = (text: string, values: unknown[] = []) => {
      calls.push(String(values[0]))
      return database.query(text, values)
    }
    return { client: stage.client({ pool: { query }, ...options }), calls }
  }

  /** Asks, and answers when it is in line, or granted. */
  async function ask(client: Fencepost, permits: number, label: string, list: string[]) {
    let lock: Lock | undefined
    const granted = client
      .semaphore('s', { permits })
      .acquire({ label })
      .then(given => {
        lock = given
        list.push(label)
        return given
      })
    granted.catch(() => {})
    await until(async () => {
      if (lock) return true
      const rows = await stage.db.query(`select from ${stage.sql('waiters')} where label = $1`, [label])
      return rows.length > 0
    })
    return { granted }
  }

  test('in the order of the line, without a call', async () => {
    const { client, calls } = counted({ poll: '60s' })
    const semaphore = client.semaphore('s', { permits: 2 })
    const order: number[] = []
    const locks = Array.from({ length: 6 }, async (_, i) => {
      const lock = await semaphore.acquire()
      order.push(i)
      return lock
    })
    const [first, second] = await Promise.all(locks.slice(0, 2))
    await until(async () => (await stage.waiting('s')) === 4)
    const before = calls.length
    await first?.release()
    await (await locks[2])?.release()
    await second?.release()
    await (await locks[3])?.release()
    expect(await stage.holders('s')).toHaveLength(2)
    // Looks are due by themselves.
    expect(calls.slice(before).filter(name => !['heartbeat', 'tick'].includes(name))).toEqual([])
    expect(client.metrics().passed).toBe(4)
    for (const lock of await Promise.all(locks)) await lock.release()
    expect(order).toEqual([0, 1, 2, 3, 4, 5])
    await until(async () => (await stage.holders('s')).length === 0)
    expect(await stage.waiting('s')).toBe(0)
  })

  test('not past somebody of another process', async () => {
    const [one, other] = [stage.client({ poll: '60s' }), stage.client()]
    const order: string[] = []
    const { granted } = await ask(one, 1, 'one 1', order)
    const second = await ask(one, 1, 'one 2', order)
    const theirs = await ask(other, 1, 'other', order)
    const third = await ask(one, 1, 'one 3', order)
    for (const next of [granted, second.granted, theirs.granted, third.granted]) await (await next).release()
    expect(order).toEqual(['one 1', 'one 2', 'other', 'one 3'])
  })

  test('not when the token was read, and not to who has given up or wants another number', async () => {
    const { client } = counted({ poll: '60s' })
    const semaphore = client.semaphore('s', { permits: 2 })
    const abort = new AbortController()
    const [read, gone, heavy] = [
      semaphore.acquire({ permits: 2 }),
      semaphore.acquire({ permits: 2, signal: abort.signal }),
      semaphore.acquire({ permits: 1 }),
    ] as const
    const first = await read
    await until(async () => (await stage.waiting('s')) === 2)
    abort.abort()
    await expect(gone).rejects.toMatchObject({ code: 'aborted' })
    expect(first.token).toBeGreaterThan(0n)
    await first.release()
    await (await heavy).release()
    expect(client.metrics().passed).toBe(0)
  })

  test('what the database grants to who has had some is for the next, or goes back', async () => {
    const [one, other] = [stage.client({ poll: '60s' }), stage.client()]
    const order: string[] = []
    const mine = await ask(one, 2, 'first', order)
    const theirs = await ask(other, 2, 'theirs', order)
    const [second, third] = [await ask(one, 2, 'second', order), await ask(one, 2, 'third', order)]
    await (await mine.granted).release()
    const passed = await second.granted
    expect(one.metrics().passed).toBe(1)
    // It is the first in line by the database's word.
    await (await theirs.granted).release()
    await (await third.granted).release()
    await passed.release()
    await until(async () => (await stage.holders('s')).length === 0)
    expect(order).toEqual(['first', 'theirs', 'second', 'third'])
  })

  test('what the database grants while it is told who has some is not left lying with the one that has gone', async () => {
    const told = new Gate()
    const calls: unknown[] = []
    const database = stage.way.options.pool as { query: (text: string, values: unknown[]) => Promise<never> }
    const query = async (text: string, values: unknown[] = []) => {
      calls.push(values[0])
      if (values[0] === 'turn') await told.opened
      return await database.query(text, values)
    }
    // Its heartbeats, which would find it out as well, are twenty seconds apart.
    const one = stage.client({ pool: { query }, poll: '100ms', ttl: '60s' })
    const other = stage.client()
    const order: string[] = []
    const mine = await ask(one, 2, 'mine', order)
    const theirs = await ask(other, 2, 'theirs', order)
    const next = await ask(one, 2, 'next', order)
    await until(
      async () => (await stage.db.query(`select from ${stage.sql('waiters')} where follows`)).length === 1,
    )
    await one.tokenBase()
    await (await mine.granted).release()
    const lock = await next.granted
    await until(() => calls.includes('turn'))
    // That it has its turn is still on its way: it is the first in line.
    await (await theirs.granted).release()
    expect(await stage.waiting('s')).toBe(0)
    told.open()
    await until(async () => (await stage.holders('s')).length === 1)
    await lock.release()
    await until(async () => (await stage.holders('s')).length === 0)
  })

  test('who has them for long is who people see', async () => {
    const client = stage.client({ poll: '100ms' })
    const order: string[] = []
    const first = await ask(client, 1, 'first', order)
    const second = await ask(client, 1, 'second', order)
    await until(
      async () => (await stage.db.query(`select from ${stage.sql('waiters')} where follows`)).length === 1,
    )
    await (await first.granted).release()
    const lock = await second.granted
    await until(async () => (await client.query()).held[0]?.label === 'second')
    expect((await client.query()).pending).toEqual([])
    await lock.release()
  })
})

test('who was told of as having some is in line until the database says otherwise', () => {
  const passing = new Passing('s')
  const lock = {} as Lock
  passing.passOn({ id: 'next', details: { permits: 1 } } as Request, '5', lock)
  const untold = () => passing.untold(token => token === '5')
  expect(untold()).toEqual([{ key: 's', token: '5', request: 'next' }])
  expect([untold(), passing.passed, passing.isEmpty]).toEqual([[], ['next'], false])
  passing.forget(['next'])
  expect(passing.isEmpty).toBe(true)
})
