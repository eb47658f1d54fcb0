// Permits passed on inside a process, where the database hears of it late, or twice.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Fencepost, Lock } from '../../src/index.ts'
import type { PostgresProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'
import { Clients, callOf } from './support/clients.ts'
import { Stage } from './support/stage.ts'
import { watched } from './support/watched.ts'

let stage: Stage
let clients: Clients
let key: string
let fp: Fencepost
let proxy: PostgresProxy
beforeAll(async () => {
  stage = await Stage.create()
  clients = new Clients(stage)
})
beforeEach(async () => {
  key = stage.key()
  // What it holds is compared with the record every twenty seconds.
  ;({ fp, proxy } = await clients.proxied({ poll: '100ms', ttl: '60s' }))
  await clients.ready(fp)
})
afterEach(() => clients.end())
afterAll(() => stage.drop())

const labels = async () =>
  (await stage.sql('select label from $schema.holders where key = $1 order by token', [key])).map(
    row => row.label,
  )
const nobody = () => until(async () => (await labels()).length + (await stage.line(key)).length === 0)

/** One has the only permit by way of another, who had it before: the database does not know. */
async function passedOn(semaphore: ReturnType<Fencepost['semaphore']>): Promise<Lock> {
  const first = await semaphore.acquire({ label: 'first' })
  const second = watched(semaphore.acquire({ label: 'second' }))
  await until(
    async () =>
      (await stage.sql('select from $schema.waiters where key = $1 and follows', [key])).length === 1,
  )
  // By the connection that has asked for it: what follows has been answered.
  await fp.tokenBase()
  await first.release()
  await until(() => second.state === 'answered')
  expect([fp.metrics().passed, await labels()]).toEqual([1, ['first']])
  return await second.promise
}

test('the answer to a turn is lost: it is told again, and nothing is left when they go back', async () => {
  const lock = await passedOn(fp.semaphore(key, { permits: 1 }))
  await proxy.dropReplyAfter(callOf('turn'))
  await until(async () => (await labels())[0] === 'second')
  expect(await stage.line(key)).toEqual([])
  await lock.release()
  await nobody()
})

// Regression: the ticket stayed in line, and was granted to who had gone; until the next heartbeat nobody knew.
test('a turn is lost, and they go back before it is told again: nobody is in line who has had them', async () => {
  const lock = await passedOn(fp.semaphore(key, { permits: 1 }))
  await proxy.dropRequest(callOf('turn'))
  await lock.release()
  await nobody()
})

test('they go back, and the answer is lost: they go to who is next once, and to nobody who has had them', async () => {
  const semaphore = fp.semaphore(key, { permits: 1 })
  const lock = await passedOn(semaphore)
  const theirs = watched(clients.direct().semaphore(key, { permits: 1 }).acquire({ label: 'theirs' }))
  await until(
    async () => (await stage.sql(`select from $schema.waiters where label = 'theirs'`)).length === 1,
  )
  const dropped = proxy.dropReplyAfter(
    request => callOf('release')(request) || callOf('release_and_notify')(request),
  )
  const released = lock.release()
  await dropped
  await theirs.promise
  await released
  expect([await labels(), await stage.line(key)]).toEqual([['theirs'], []])
  await (await theirs.promise).release()
  await nobody()
})
