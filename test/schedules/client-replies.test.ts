// Replies that never arrive: the commit has happened, the client cannot know, and asks again.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Fencepost } from '../../src/index.ts'
import type { PostgresProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'
import { Clients, callOf } from './support/clients.ts'
import { Stage } from './support/stage.ts'
import { watched } from './support/watched.ts'

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

const rows = () => stage.sql('select key, token from $schema.locks order by key')

test('the reply to an acquire is lost: it is granted once, to the one who asked', async () => {
  const dropped = proxy.dropReplyAfter(callOf('acquire'))
  const asked = watched(fp.acquire(key))
  await dropped
  const held = await stage.lock(key)
  expect(held).toBeDefined()
  const lock = await asked.promise
  expect(lock.token).toBe(held?.token)
  expect(await rows()).toEqual([{ key, token: String(lock.token) }])
  expect(proxy.counters.repliesDropped).toBe(1)
  expect(await lock.release()).toBe('released')
  expect(await rows()).toEqual([])
})

test('the reply to a batch of acquires is lost: each is granted once', async () => {
  const keys = [stage.key('a'), stage.key('b'), stage.key('c')]
  const dropped = proxy.dropReplyAfter(callOf('acquire'))
  const asked = Promise.all(keys.map(each => fp.acquire(each)))
  await dropped
  const locks = await asked
  expect(await rows()).toEqual(keys.map((each, i) => ({ key: each, token: String(locks[i]?.token) })))
  await Promise.all(locks.map(lock => lock.release()))
})

test('the reply that says "in line" is lost: one place in line, and it is kept', async () => {
  const [holder, later] = [await stage.actor('holder'), await stage.actor('later')]
  const { token } = await holder.acquire(key)
  const dropped = proxy.dropReplyAfter(callOf('acquire'))
  const asked = fp.acquire(key)
  await dropped
  await later.acquire(key)
  const line = await stage.line(key)
  expect(line.at(-1)).toBe(later.session)
  await holder.release(key, token)
  const lock = await asked
  expect(await stage.line(key)).toEqual([later.session])
  await lock.release()
  expect(await stage.lock(key)).toMatchObject({ session: later.session })
})

test('the reply to a release is lost: repeated, it does not touch the newer grant of the same process', async () => {
  const first = await fp.acquire(key)
  const { token } = first
  const second = watched(fp.acquire(key))
  await until(async () => (await stage.line(key)).length === 1)
  const dropped = proxy.dropReplyAfter(callOf('release'))
  const released = first.release()
  await dropped
  const newer = await stage.lock(key)
  expect(newer?.token).toBeGreaterThan(token)
  expect(await released).toBe('released')
  const lock = await second.promise
  expect(lock.token).toBe(newer?.token)
  expect(await stage.lock(key)).toMatchObject({ token: lock.token, released: false })
  expect(lock.state).toBe('held')
  await lock.release()
})

test('the reply to a release is lost, and another has the key: his grant is not touched', async () => {
  const next = await stage.actor('next')
  const lock = await fp.acquire(key)
  const { request } = await next.acquire(key)
  const dropped = proxy.dropReplyAfter(callOf('release'))
  const released = lock.release()
  await dropped
  expect(await released).toBe('released')
  expect(await next.tick([key], [request ?? ''])).toMatchObject([{ outcome: 'granted' }])
  expect(await stage.lock(key)).toMatchObject({ session: next.session, released: false })
})

test('the reply to a cancel is lost: nothing is left, and the caller is told why it gave up', async () => {
  const holder = await stage.actor('holder')
  await holder.acquire(key)
  const giveUp = new AbortController()
  const asked = watched(fp.acquire(key, { signal: giveUp.signal }))
  await until(async () => (await stage.line(key)).length === 1)
  const dropped = proxy.dropReplyAfter(callOf('cancel'))
  giveUp.abort(new Error('enough'))
  await dropped
  await expect(asked.promise).rejects.toMatchObject({ code: 'aborted', cause: giveUp.signal.reason })
  expect(await stage.line(key)).toEqual([])
})

test('the reply to a heartbeat is lost: nothing else is', async () => {
  const quick = await clients.proxied({ ttl: '1.2s' })
  const lock = await quick.fp.acquire(key)
  await quick.proxy.dropReplyAfter(callOf('heartbeat'))
  await quick.proxy.dropReplyAfter(callOf('heartbeat'))
  await until(() => lock.state === 'held' && lock.remaining > 800)
  expect(lock.signal.aborted).toBe(false)
  expect(await stage.lock(key)).toMatchObject({ token: lock.token })
  expect(await lock.release()).toBe('released')
})

test('the reply to the opening of a session is lost: the lock is held by one, and the other does not live on', async () => {
  const dropped = proxy.dropReplyAfter(callOf('open_session'))
  const asked = fp.acquire(key, { ttl: '1s' })
  await dropped
  const lock = await asked
  expect(await stage.lock(key)).toMatchObject({ token: lock.token })
  await lock.release()
  expect(await rows()).toEqual([])
  await until(async () => {
    const [row] = await stage.sql(`select count(*)::int as count from $schema.sessions where ttl = '1s'`)
    return row?.count === 1
  })
})

test('the reply to a close is lost: repeated', async () => {
  const lock = await fp.acquire(key)
  const dropped = proxy.dropReplyAfter(callOf('close_session'))
  const closed = fp.close()
  await dropped
  await closed
  expect(lock.state).toBe('lost')
  expect(lock.lossReason).toBe('shutdown')
  expect(await rows()).toEqual([])
})

test('a reply that says "in line", read only after the session’s end: asked again, and served', async () => {
  const holder = await stage.actor('holder')
  const { token } = await holder.acquire(key)
  const short = await clients.proxied({ ttl: '1s' })
  await clients.ready(short.fp)
  short.proxy.hold('toClient')
  const asked = watched(short.fp.acquire(key))
  await until(async () => (await stage.line(key)).length === 1)
  // Nothing is answered, so that its trust ends with the place in line on its way.
  const [session] = await stage.line(key)
  await until(async () => {
    await stage.reapDue()
    await holder.tick()
    return (
      (await stage.sql('select from $schema.sessions where id = $1 and died is null', [session])).length === 0
    )
  })
  expect(asked.state).toBe('open')
  short.proxy.release()
  await until(async () => (await stage.line(key)).filter(id => id !== session).length === 1)
  await holder.release(key, token)
  const lock = await asked.promise
  expect(lock.token).toBeGreaterThan(token ?? 0n)
  expect(await stage.lock(key)).toMatchObject({ token: lock.token })
  await lock.release()
})

test('a reply that says "granted", read only after the session’s end: asked again, and held once', async () => {
  const short = await clients.proxied({ ttl: '1s' })
  await clients.ready(short.fp)
  short.proxy.hold('toClient')
  const asked = watched(short.fp.acquire(key))
  const first = await until(() => stage.lock(key))
  const other = await stage.actor('other')
  await until(async () => {
    await stage.reapDue()
    await other.tick()
    return (await stage.lock(key)) === undefined
  })
  expect(asked.state).toBe('open')
  short.proxy.release()
  const lock = await asked.promise
  expect(lock.state).toBe('held')
  expect(lock.token).toBeGreaterThan(first.token)
  expect(await rows()).toEqual([{ key, token: String(lock.token) }])
  await lock.release()
})

test('replies are lost one after another, of every call: still one grant', async () => {
  const dropped: Promise<void>[] = []
  for (let i = 0; i < 3; i++) dropped.push(proxy.dropReplyAfter(callOf('acquire')))
  const lock = await fp.acquire(key)
  await Promise.all(dropped)
  expect(await rows()).toEqual([{ key, token: String(lock.token) }])
  const again: Promise<void>[] = []
  for (let i = 0; i < 3; i++) again.push(proxy.dropReplyAfter(callOf('release')))
  expect(await lock.release()).toBe('released')
  await Promise.all(again)
  expect(await rows()).toEqual([])
})
