// Guards and fences of those who hold a key together: readers, and who has permits.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Fencepost, Lock, Queryable } from '../../src/index.ts'
import { Gate } from '../conformance/gate.ts'
import { until } from '../support/until.ts'
import { Setting } from './support/setting.ts'

let setting: Setting
let schema: string
beforeAll(async () => {
  setting = await Setting.create()
  schema = `"${setting.db.schema.replaceAll('"', '""')}"`
})
afterEach(() => setting.clear())
afterAll(() => setting.db.drop())

const shared = { mode: 'shared' } as const
const write = async (trx: Queryable, text: string) => {
  await trx.query('insert into notes values ($1)', [text])
}
const raise = (resource: string, mark: bigint) =>
  setting.db.query(`select ${schema}.fence($1, $2)`, [resource, String(mark)])

/** A guarded transaction that stays open until its gate is. */
async function open(lock: Lock, text: string): Promise<{ gate: Gate; done: Promise<string> }> {
  const [gate, inside] = [new Gate(), new Gate()]
  const done = lock.transaction(async trx => {
    await write(trx, text)
    inside.open()
    await gate.opened
    return text
  })
  done.catch(inside.open)
  await inside.opened
  return { gate, done }
}

/** Lets the sessions that hold a key expire, and has them judged. Nobody is told. */
async function expire(key: string, token: bigint): Promise<void> {
  await setting.db.query(
    `update ${schema}.sessions set expires_at = clock_timestamp() - interval '1 second'
      where id in (select session from ${schema}.holders where key = $1 and token = $2
                   union select session from ${schema}.locks where key = $1 and token = $2)`,
    [key, String(token)],
  )
  await setting.db.query(`update ${schema}.reaper set looked_at = '-infinity'`)
  await setting.db.query(`select ${schema}.tick(gen_random_uuid())`)
}

async function queued(key: string, count: number): Promise<void> {
  await until(async () => {
    const rows = await setting.db.query(`select from ${schema}.waiters where key = $1`, [key])
    return rows.length === count
  })
}

type Take = (client: Fencepost, key: string) => Promise<Lock>
const ways: [name: string, take: Take, next: Take][] = [
  ['readers', (client, key) => client.acquire(key, shared), (client, key) => client.acquire(key)],
  [
    'permits',
    (client, key) => client.semaphore(key, { permits: 2 }).acquire(),
    (client, key) => client.semaphore(key, { permits: 2 }).acquire({ permits: 2 }),
  ],
]

describe.each(ways)('%s', (_, take, next) => {
  test('two write in guarded transactions at the same time', async () => {
    const key = setting.key()
    const locks = [await take(setting.fencepost(), key), await take(setting.fencepost(), key)]
    const transactions = await Promise.all(locks.map((lock, i) => open(lock, String(i))))
    for (const { gate } of transactions) gate.open()
    await Promise.all(transactions.map(({ done }) => done))
    expect(await setting.notes()).toEqual(['0', '1'])
    await setting.db.query('delete from notes')
  })

  test('one that is pinned and expires keeps out who wants the key alone, until it ends; the other goes on', async () => {
    const key = setting.key()
    const [dying, other, waiting] = [setting.fencepost(), setting.fencepost(), setting.fencepost()]
    const pinned = await take(dying, key)
    const { token } = pinned
    const beside = await take(other, key)
    const { gate, done } = await open(pinned, 'pinned')
    const granted = next(waiting, key)
    await queued(key, 1)
    await expire(key, token)
    await beside.transaction(trx => write(trx, 'beside'))
    await beside.release()
    await setting.db.query(`select ${schema}.tick(gen_random_uuid())`)
    await queued(key, 1)
    gate.open()
    await done
    const after = await granted
    await after.transaction(trx => write(trx, 'after'))
    expect(await setting.notes()).toEqual(['after', 'beside', 'pinned'])
    await setting.db.query('delete from notes')
  })

  test('one that has expired is refused, and who is beside it is not', async () => {
    const key = setting.key()
    const [dying, other] = [setting.fencepost(), setting.fencepost()]
    const lost = await take(dying, key)
    const { token } = lost
    const kept = await take(other, key)
    await expire(key, token)
    await expect(lost.transaction(trx => write(trx, 'lost'))).rejects.toMatchObject({ code: 'lost' })
    await kept.transaction(trx => write(trx, 'kept'))
    expect(await setting.notes()).toEqual(['kept'])
    await setting.db.query('delete from notes')
  })

  test('released under a guard: it goes when that ends, and not before', async () => {
    const key = setting.key()
    const [one, waiting] = [setting.fencepost(), setting.fencepost()]
    const lock = await take(one, key)
    const { gate, done } = await open(lock, 'released')
    const granted = next(waiting, key)
    await queued(key, 1)
    expect(await lock.release()).toBe('released')
    await setting.db.query(`select ${schema}.tick(gen_random_uuid())`)
    await queued(key, 1)
    gate.open()
    await done
    expect((await granted).state).toBe('held')
    await setting.db.query('delete from notes')
  })

  test.each(['begin', 'begin isolation level repeatable read', 'begin isolation level serializable'])(
    'a guard in a transaction of one`s own, after `%s`',
    async begin => {
      const key = setting.key()
      const locks = [await take(setting.fencepost(), key), await take(setting.fencepost(), key)]
      const own = [await setting.begun(begin), await setting.begun(begin)]
      for (const [i, lock] of locks.entries()) await lock.guard(own[i] as (typeof own)[0])
      for (const [i, client] of own.entries()) await write(client, `own ${i}`)
      for (const client of own) await client.query('commit')
      expect(await setting.notes()).toEqual(['own 0', 'own 1'])
      await setting.db.query('delete from notes')
      await locks[0]?.release()
      await expect(locks[0]?.guard(await setting.begun(begin))).rejects.toMatchObject({ code: 'not_held' })
    },
  )
})

describe('fences', () => {
  test('two readers do not refuse each other; the next writer refuses both, and they never refused it', async () => {
    const [key, resource] = [setting.key(), setting.key()]
    const [one, other] = [setting.fencepost(), setting.fencepost()]
    const writer = await one.acquire(key)
    const before = writer.level
    expect(before).toBe(writer.token)
    await raise(resource, before)
    await writer.release()
    const readers = [await one.acquire(key, shared), await other.acquire(key, shared)]
    const levels = readers.map(lock => lock.level)
    expect(levels[0]).toBe(levels[1])
    expect(levels[0]).toBeGreaterThanOrEqual(before)
    for (const mark of [levels[0], levels[1], levels[0]] as bigint[]) await raise(resource, mark)
    for (const reader of readers) await reader.release()
    const next = await other.acquire(key)
    await raise(resource, next.level)
    for (const mark of levels) await expect(raise(resource, mark)).rejects.toMatchObject({ code: 'FP002' })
    await raise(resource, next.level)
  })

  test('the first readers of all have a level below their tokens, and the first writer is above', async () => {
    const key = setting.key()
    const [one, other] = [setting.fencepost(), setting.fencepost()]
    const readers = [await one.acquire(key, shared), await other.acquire(key, shared)]
    expect(readers[0]?.level).toBe(readers[1]?.level)
    const most = readers.map(lock => lock.token).sort((a, b) => Number(a - b))[1] as bigint
    expect(readers[0]?.level).toBeGreaterThan(0n)
    expect(readers[0]?.level).toBeLessThan(most)
    for (const reader of readers) await reader.release()
    expect((await one.acquire(key)).level).toBeGreaterThan(most)
  })

  test('a downgraded lock and the readers that it let in are of one level: its token', async () => {
    const key = setting.key()
    const [one, other] = [setting.fencepost(), setting.fencepost()]
    const lock = await one.acquire(key)
    const reading = other.acquire(key, shared)
    await queued(key, 1)
    await lock.downgrade()
    const reader = await reading
    expect([lock.level, reader.level]).toEqual([lock.token, lock.token])
    await lock.transaction(trx => write(trx, 'downgraded'))
    await reader.transaction(trx => write(trx, 'beside'))
    expect(await setting.notes()).toEqual(['beside', 'downgraded'])
    await setting.db.query('delete from notes')
  })

  test('permits are of one level, also after everybody has given them back', async () => {
    const key = setting.key()
    const semaphore = setting.fencepost().semaphore(key, { permits: 3 })
    const locks = [await semaphore.acquire(), await semaphore.acquire({ permits: 2 })]
    const [level] = locks.map(lock => lock.level)
    expect(locks[1]?.level).toBe(level)
    for (const lock of locks) await lock.release()
    expect((await semaphore.acquire()).level).toBe(level)
  })
})
