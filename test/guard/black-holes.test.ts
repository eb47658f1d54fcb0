// A network that loses all that is sent, both ways and without a word: nobody tells the client what the server did.
import type pg from 'pg'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type TransactionClient, TransactionTimeoutError, UnreachableError } from '../../src/index.ts'
import { timersOf } from '../conformance/timers.ts'
import type { PostgresProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'
import { Setting } from './support/setting.ts'

let setting: Setting
beforeAll(async () => {
  setting = await Setting.create()
})
afterEach(() => setting.clear())
afterAll(() => setting.db.drop())

/** A lock whose transactions alone go through the proxy, and the one socket that they go by. */
async function stage() {
  const { fp, proxy, pool } = await setting.throughProxy({ ttl: 1_000 })
  const sockets: { destroyed: boolean }[] = []
  pool.on('connect', (client: pg.PoolClient & { connection?: { stream: { destroyed: boolean } } }) => {
    if (client.connection) sockets.push(client.connection.stream)
  })
  const key = setting.key()
  const lock = await fp.acquire(key)
  const timers = timersOf('/src/guard/', '/src/database/deadline.ts')
  return { key, lock, proxy, pool, sockets, timers }
}

/** The lock is as it was, nothing is left of the transaction here, and there is another as soon as the network is back. */
async function expectUsable({ lock, proxy, pool, sockets, timers }: Awaited<ReturnType<typeof stage>>) {
  expect(sockets).toMatchObject([{ destroyed: true }])
  expect(pool.totalCount).toBe(0)
  expect(lock.state).toBe('held')
  proxy.release()
  await lock.transaction(trx => trx.query(`insert into notes values ('later')`))
  expect(await timers.alive()).toEqual([])
}

const write = (trx: TransactionClient) => trx.query(`insert into notes values ('a')`)
const never = new Promise<never>(() => {})

const works: Record<string, (trx: TransactionClient, proxy: PostgresProxy) => Promise<unknown>> = {
  'it waits for an answer': async (trx, proxy) => {
    proxy.blackHole()
    await trx.query('select 1')
  },
  'it waits for something else, with nothing in flight': async (_, proxy) => {
    proxy.blackHole()
    await never
  },
  'it swallows what it is told, and never settles': async (trx, proxy) => {
    proxy.blackHole()
    await trx.query('select 1').catch(() => {})
    await never
  },
}

test.each(Object.entries(works))('inside the work: %s', { timeout: 10_000 }, async (_, work) => {
  const staged = await stage()
  const done = staged.lock.transaction(async trx => {
    await write(trx)
    await work(trx, staged.proxy)
  })
  await expect(done).rejects.toBeInstanceOf(TransactionTimeoutError)
  await expectUsable(staged)
  expect(await setting.notes()).toEqual(['later'])
})

test('inside the work, whose transaction nothing in the server bounds: its backend is ended, and the next granted', {
  timeout: 10_000,
}, async () => {
  const { key, lock, proxy } = await stage()
  const done = lock.transaction(async trx => {
    await write(trx)
    for (const name of ['transaction_timeout', 'idle_in_transaction_session_timeout', 'statement_timeout']) {
      await trx.query(`select set_config(name, '0', true) from pg_settings where name = $1`, [name])
    }
    proxy.blackHole()
    await never
  })
  await expect(done).rejects.toBeInstanceOf(TransactionTimeoutError)
  await lock.release()
  await setting.fencepost({ poll: 20 }).withLock(key, { timeout: '3s' }, () => {})
  expect(await setting.notes()).toEqual([])
})

test('what the work does after that is refused, and its answer dropped', { timeout: 10_000 }, async () => {
  const { lock, proxy } = await stage()
  let goOn = () => {}
  const paused = new Promise<void>(resolve => {
    goOn = resolve
  })
  let late: unknown
  const done = lock.transaction(async trx => {
    proxy.blackHole()
    await paused
    late = await Promise.resolve()
      .then(() => write(trx))
      .catch(error => error)
    return 'dropped'
  })
  await expect(done).rejects.toBeInstanceOf(TransactionTimeoutError)
  proxy.release()
  goOn()
  expect(await until(() => late)).toMatchObject({ code: 'not_in_transaction' })
})

test('the commit does not arrive: resolved as aborted', { timeout: 15_000 }, async () => {
  const staged = await stage()
  const done = staged.lock.transaction(async trx => {
    await write(trx)
    staged.proxy.blackHole()
  })
  await expect(done).rejects.toBeInstanceOf(UnreachableError)
  await expectUsable(staged)
  expect(await setting.notes()).toEqual(['later'])
})

test('the commit arrives, and its answer does not: resolved as committed', { timeout: 15_000 }, async () => {
  const staged = await stage()
  const answer = await staged.lock.transaction(async trx => {
    await write(trx)
    staged.proxy.blackHole('toClient')
    return 'answer'
  })
  expect(answer).toBe('answer')
  await expectUsable(staged)
  expect(await setting.notes()).toEqual(['a', 'later'])
})

test('the message that begins it does not arrive: given up, and nothing has run', {
  timeout: 20_000,
}, async () => {
  const staged = await stage()
  await staged.lock.transaction(() => {})
  staged.proxy.blackHole()
  let ran = false
  const done = staged.lock.transaction(() => {
    ran = true
  })
  await expect(done).rejects.toBeInstanceOf(UnreachableError)
  expect(ran).toBe(false)
  await expectUsable(staged)
})
