// What close waits for, and what becomes of the rest.
import { afterEach, expect, test } from 'vitest'
import { Gate } from '../conformance/gate.ts'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'
import { type PostgresProxy, startProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'

const stage = new Stage(ways['a pool'])
const never = new Promise<never>(() => {})
const shutdown = { code: 'lost', reason: 'shutdown' }
let proxy: PostgresProxy | undefined
afterEach(async () => {
  await proxy?.close()
  proxy = undefined
})

/** Whether a promise is settled, once everything that is ready has had its say. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol('pending')
  const turn = new Promise(resolve => setImmediate(resolve, pending))
  return (await Promise.race([promise.catch(() => {}), turn])) !== pending
}

test('a transaction under a lock that was acquired by hand is awaited, and commits', async () => {
  const [client, other] = [stage.client(), stage.client()]
  const [inside, gate] = [new Gate(), new Gate()]
  const lock = await client.acquire('k')
  const transaction = lock.transaction(async trx => {
    inside.open()
    await gate.opened
    await trx.query('select 1')
    return [lock.signal.aborted, lock.state]
  })
  await inside.opened
  const closed = client.close({ timeout: '1m' })
  expect(await other.tryAcquire('k')).toBeNull()
  expect(await isSettled(closed)).toBe(false)
  gate.open()
  expect(await transaction).toEqual([true, 'held'])
  await closed
  expect((await other.tryAcquire('k'))?.state).toBe('held')
})

test('permits are held until their section ends', async () => {
  const [client, other] = [stage.client(), stage.client()]
  const [inside, gate] = [new Gate(), new Gate()]
  const section = client.semaphore('s', { permits: 2 }).withPermits({ permits: 2 }, async lock => {
    inside.open()
    await gate.opened
    return [lock.signal.aborted, lock.state]
  })
  await inside.opened
  const closed = client.close({ timeout: '1m' })
  const semaphore = other.semaphore('s', { permits: 2 })
  expect(await semaphore.tryAcquire()).toBeNull()
  gate.open()
  expect(await section).toEqual([true, 'held'])
  await closed
  expect((await semaphore.tryAcquire({ permits: 2 }))?.state).toBe('held')
  await other.close()
  await stage.db.query(`delete from ${stage.sql('locks')}`)
})

test('a section that was told to stop may still write, and what it writes is awaited', async () => {
  const client = stage.client()
  const inside = new Gate()
  const section = client.withLock('k', async lock => {
    const told = new Promise(resolve => lock.signal.addEventListener('abort', resolve))
    inside.open()
    await told
    return await lock.transaction(async trx => (await trx.query('select 5 as five')).rows)
  })
  await inside.opened
  await Promise.all([client.close({ timeout: '1m' }), expect(section).resolves.toEqual([{ five: 5 }])])
})

test('locks that were acquired by hand are kept for as long as sections run, and no longer', async () => {
  const client = stage.client()
  const [inside, gate] = [new Gate(), new Gate()]
  const byHand = await client.acquire('by hand')
  const section = client.withLock('k', async () => {
    const nested = await client.acquire('nested')
    inside.open()
    await gate.opened
    return [byHand.state, nested.state, nested.signal.aborted]
  })
  await inside.opened
  const closed = client.close({ timeout: '1m' })
  gate.open()
  expect(await section).toEqual(['held', 'held', true])
  await closed
  expect([byHand.state, byHand.lossReason]).toEqual(['lost', 'shutdown'])
})

test('what is held is renewed for as long as sections run', async () => {
  const client = stage.client({ ttl: '1s' })
  const [inside, gate] = [new Gate(), new Gate()]
  const section = client.withLock('k', async lock => {
    inside.open()
    await gate.opened
    return lock.state
  })
  await inside.opened
  const closed = client.close({ timeout: '1m' })
  const renewed = async () => {
    const [row] = await stage.db.query<{ yes: boolean }>(
      `select expires_at > opened_at + interval '3 s' as yes from ${stage.sql('sessions')} where owner = $1`,
      [stage.ownerOf(client)],
    )
    return row?.yes
  }
  await until(renewed, { what: 'renewed for twice its ttl' })
  gate.open()
  expect(await section).toBe('held')
  await closed
})

test('a transaction that does not end is given up: nothing is written, and the next one is granted', async () => {
  const { pool } = stage.way
  const [client, other] = [stage.client(), stage.client()]
  await stage.db.query('create table if not exists notes (text text)')
  const inside = new Gate()
  const lock = await client.acquire('k')
  const transaction = lock.transaction(async trx => {
    await trx.query(`insert into notes values ('never')`)
    inside.open()
    await never
  })
  const refused = expect(transaction).rejects.toMatchObject(shutdown)
  await inside.opened
  const next = other.acquire('k')
  await stage.queued('k', 1)
  await client.close({ timeout: 20 })
  await refused
  expect((await next).state).toBe('held')
  expect(await stage.db.query('select from notes')).toEqual([])
  // The pool is its owner's: it has lost a client, and makes another.
  expect((await pool?.query('select 1 as one'))?.rows).toEqual([{ one: 1 }])
})

test('one that is busy in the server is ended there', async () => {
  const [client, other] = [stage.client(), stage.client()]
  const inside = new Gate()
  const lock = await client.acquire('k')
  const transaction = lock.transaction(async trx => {
    const sleeping = trx.query('select pg_sleep(60)')
    inside.open()
    await sleeping
  })
  const refused = expect(transaction).rejects.toMatchObject(shutdown)
  await inside.opened
  const next = other.acquire('k', { timeout: '20s' })
  await stage.queued('k', 1)
  await client.close({ timeout: 20 })
  await refused
  expect((await next).state).toBe('held')
})

test('one that waits for a client of the pool waits no longer, and takes none away', async () => {
  const way = stage.newWay({ max: 1 })
  const client = stage.client({}, way)
  const taken = await way.pool?.connect()
  const lock = await client.acquire('k')
  const transaction = lock.transaction(() => 'ran')
  const refused = expect(transaction).rejects.toMatchObject(shutdown)
  await client.close({ timeout: 20 })
  await refused
  taken?.release()
  expect((await way.pool?.query('select 1 as one'))?.rows).toEqual([{ one: 1 }])
})

test('whoever is told of the close finds it closing', async () => {
  const client = stage.client()
  const { signal } = await client.acquire('k')
  let refused: Promise<void> | undefined
  signal.addEventListener('abort', () => {
    refused = expect(client.acquire('another')).rejects.toMatchObject({ code: 'closed' })
  })
  await client.close()
  expect(refused).toBeDefined()
  await refused
})

test('a section whose grant meets the close does not begin', async () => {
  const client = stage.client()
  const warm = await client.acquire('warm')
  await warm.release()
  let hasBegun = false
  // Both are granted by one answer, and this one is told first.
  const closing = client.acquire('a').then(() => client.close())
  const section = client.withLock('b', () => {
    hasBegun = true
  })
  await expect(section).rejects.toMatchObject({ code: 'closed' })
  await closing
  expect([hasBegun, await stage.holders('b')]).toEqual([false, []])
})

test.each(['nothing answers', 'nothing is to be reached'])(
  'the database is away, and %s: it closes',
  async how => {
    proxy = await startProxy(stage.db.url)
    const pool = stage.db.pool({ connectionString: proxy.url(stage.db.url) })
    const client = stage.client({ pool })
    const lock = await client.acquire('k')
    const { signal } = lock
    const inside = new Gate()
    const section = client.withLock('l', async () => {
      inside.open()
      await never
    })
    section.catch(() => {})
    await inside.opened
    // The pool has a client to spare: it is the beginning that is not answered.
    await lock.transaction(() => {})
    const waiting = client.acquire('k')
    const rejected = expect(waiting).rejects.toMatchObject({ code: 'closed' })
    if (how === 'nothing answers') proxy.blackHole()
    else {
      await proxy.accept(false)
      proxy.cut()
    }
    const transaction = lock.transaction(() => 'ran')
    const failed = expect(transaction).rejects.toMatchObject(
      how === 'nothing answers' ? shutdown : { code: 'unreachable' },
    )
    await client.close({ timeout: 20 })
    await Promise.all([rejected, failed])
    expect([lock.state, lock.lossReason, signal.aborted]).toEqual(['lost', 'shutdown', true])
    await stage.expire(client)
    await stage.db.query(`select from ${stage.sql('tick')}(gen_random_uuid())`)
  },
)
