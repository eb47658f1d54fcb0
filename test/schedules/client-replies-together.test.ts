// Replies that never arrive, for those who hold a key with others, or several keys: the commit has happened, the client cannot
// know, and asks again.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { AcquireOptions, Fencepost, Lock } from '../../src/index.ts'
import type { PostgresProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'
import { Clients, callOf } from './support/clients.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
let clients: Clients
let fp: Fencepost
let proxy: PostgresProxy
let key: string

beforeAll(async () => {
  stage = await Stage.create()
  clients = new Clients(stage)
})
beforeEach(async () => {
  key = stage.key()
  ;({ fp, proxy } = await clients.proxied())
  await clients.ready(fp)
})
afterEach(() => clients.end())
afterAll(() => stage.drop())

/** What is held, by the database. */
async function held(): Promise<[key: string, token: bigint][]> {
  const rows = await stage.sql('select key, token from $schema.held where not released order by key, token')
  return rows.map(row => [row.key, BigInt(row.token)])
}

const grantsOf = (...locks: Lock[]) =>
  locks
    .flatMap(lock => [...lock.tokens])
    .sort(([one, token], [other, another]) =>
      one === other ? Number(token - another) : one < other ? -1 : 1,
    )

const waiting = async () => (await stage.sql('select distinct request from $schema.waiters')).length

const kinds: Record<
  string,
  {
    take: (client: Fencepost, options?: AcquireOptions) => Promise<Lock>
    /** What it has to wait for. */
    against: (client: Fencepost) => Promise<Lock>
  }
> = {
  'a shared lock': {
    take: (client, options) => client.acquire(key, { mode: 'shared', ...options }),
    against: client => client.acquire(key),
  },
  permits: {
    take: (client, options) => client.semaphore(key, { permits: 3 }).acquire({ permits: 2, ...options }),
    against: client => client.semaphore(key, { permits: 3 }).acquire({ permits: 2 }),
  },
  'several keys': {
    take: (client, options) => client.acquire([`${key}.1`, key, `${key}.2`], options),
    against: client => client.acquire(key),
  },
}

describe.each(Object.entries(kinds))('%s', (_, { take, against }) => {
  test('the reply to an acquire is lost: granted once', async () => {
    const dropped = proxy.dropReplyAfter(callOf('acquire'))
    const asked = take(fp)
    await dropped
    const lock = await asked
    expect(await held()).toEqual(grantsOf(lock))
    await lock.renew()
    expect(lock.state).toBe('held')
    expect(await lock.release()).toBe('released')
    expect(await held()).toEqual([])
  })

  test('the reply that says "in line" is lost: one place, and it is kept', async () => {
    const other = clients.direct()
    const before = await against(other)
    const dropped = proxy.dropReplyAfter(callOf('acquire'))
    const asked = take(fp)
    await dropped
    await until(async () => (await waiting()) === 1)
    await before.release()
    const lock = await asked
    expect(await held()).toEqual(grantsOf(lock))
    expect(await waiting()).toBe(0)
    expect(await lock.release()).toBe('released')
  })

  test('the reply that tells of the grant is lost: told by the next', async () => {
    const other = clients.direct()
    const before = await against(other)
    const asked = take(fp)
    await until(async () => (await waiting()) === 1)
    const dropped = proxy.dropReplyAfter(callOf('tick'))
    await before.release()
    await dropped
    const lock = await asked
    expect(await held()).toEqual(grantsOf(lock))
    await lock.renew()
    expect(await lock.release()).toBe('released')
  })

  test('the reply to a release is lost: repeated, it takes nothing from who has it next', async () => {
    const other = clients.direct()
    const lock = await take(fp)
    const asked = against(other)
    await until(async () => (await waiting()) === 1)
    const dropped = proxy.dropReplyAfter(callOf('release'))
    const released = lock.release()
    await dropped
    expect(await released).toBe('released')
    const next = await asked
    await until(async () => (await held()).length === 1)
    expect(await held()).toEqual(grantsOf(next))
    await next.renew()
    expect(await next.release()).toBe('released')
  })

  test('the reply to a cancel is lost: nothing is left', async () => {
    const other = clients.direct()
    const before = await against(other)
    const controller = new AbortController()
    const asked = take(fp, { signal: controller.signal })
    asked.catch(() => {})
    await until(async () => (await waiting()) === 1)
    const dropped = proxy.dropReplyAfter(callOf('cancel'))
    controller.abort()
    await dropped
    await expect(asked).rejects.toMatchObject({ code: 'aborted' })
    expect(await waiting()).toBe(0)
    expect(await held()).toEqual(grantsOf(before))
    await before.release()
  })

  test('given up while the answer is on its way: the grant is given back', async () => {
    const controller = new AbortController()
    const dropped = proxy.dropReplyAfter(callOf('acquire'))
    const asked = take(fp, { signal: controller.signal })
    asked.catch(() => {})
    await dropped
    controller.abort()
    await Promise.allSettled([asked])
    await until(async () => (await held()).length === 0)
    expect(await waiting()).toBe(0)
  })
})

test('the reply to a downgrade is lost: it is one lock, shared, and its holder knows', async () => {
  const other = clients.direct()
  const lock = await fp.acquire(key)
  const { token } = lock
  const reading = other.acquire(key, { mode: 'shared' })
  await until(async () => (await waiting()) === 1)
  const dropped = proxy.dropReplyAfter(callOf('downgrade'))
  const downgraded = lock.downgrade()
  await dropped
  await downgraded
  const reader = await reading
  expect([lock.mode, lock.level, lock.token, reader.level]).toEqual(['shared', token, token, token])
  expect(await held()).toEqual(grantsOf(lock, reader))
  await lock.renew()
  expect(lock.state).toBe('held')
  await lock.release()
  await reader.release()
})

test('the reply to a resize is lost: told as unreachable, and repeated it is the same', async () => {
  const semaphore = fp.semaphore(key, { permits: 1 })
  const lock = await semaphore.acquire()
  const dropped = proxy.dropReplyAfter(callOf('resize'))
  const [resized] = await Promise.allSettled([semaphore.resize(2), dropped])
  if (resized.status === 'rejected') {
    expect(resized.reason).toMatchObject({ code: 'unreachable' })
    await semaphore.resize(2)
  }
  expect(semaphore.permits).toBe(2)
  const second = await semaphore.acquire()
  expect(await held()).toEqual(grantsOf(lock, second))
  await lock.release()
  await second.release()
})
