// Contended keys at a counter of their own: nobody else waits for them, and nobody of theirs is overtaken on the way there.
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Fencepost } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { Clients } from './support/clients.ts'
import { atGate, hook, shutGate, stopAtGate } from './support/hook.ts'
import { Stage } from './support/stage.ts'
import { watched } from './support/watched.ts'

let stage: Stage
let clients: Clients
let key: string
beforeAll(async () => {
  stage = await Stage.create()
  clients = new Clients(stage)
})
beforeEach(() => {
  key = stage.key('hot')
})
afterEach(() => clients.end())
afterAll(() => stage.drop())

/** A client that knows the key to be contended, and has a connection for that: it is in line for it behind another. */
async function inLine(fp: Fencepost) {
  const other = await clients.direct().acquire(key)
  const waiting = watched(fp.acquire(key, { label: '0' }))
  await until(async () => (await stage.line(key)).length === 1)
  await until(async () => {
    await fp.tryAcquire(key)
    const rows = await stage.sql(
      `select from pg_stat_activity where datname = current_database() and application_name = 'fencepost contended'
          and query like '%.acquire(%'`,
    )
    return rows.length === 1
  })
  return { other, waiting }
}

test('while a call for a hot key waits, a cold one is taken and given back', async () => {
  const fp = clients.direct()
  await clients.ready(fp)
  const { other, waiting } = await inLine(fp)
  const blocker = await stage.actor('blocker')
  await blocker.begin()
  await blocker.cancel(key, randomUUID())
  const late = watched(fp.acquire(key))
  await until(async () => {
    const rows = await stage.sql(
      `select from pg_stat_activity where $1 = any (pg_blocking_pids(pid)) and application_name = 'fencepost contended'`,
      [blocker.pid],
    )
    return rows.length === 1
  })
  for (let i = 0; i < 3; i += 1) await (await fp.acquire(stage.key('cold'))).release()
  expect([waiting.state, late.state]).toEqual(['open', 'open'])
  await blocker.commit()
  await other.release()
  await (await waiting.promise).release()
  await (await late.promise).release()
})

test('its requests are in line in the order in which they came, also where that began on another connection', async () => {
  const fp = clients.direct()
  await clients.ready(fp)
  const { other, waiting } = await inLine(fp)
  const fresh = stage.key('fresh')
  const holder = await clients.direct().acquire(fresh)
  await hook(stage, 'acquire', { before: `if acquire.labels[1] = 'second' then ${stopAtGate} end if;` })
  const open = await shutGate(stage)
  // The second is sent when the first has been answered, and before that answer is taken in.
  const asked = [fp.acquire(fresh, { label: 'first' })]
  await new Promise(setImmediate)
  asked.push(fp.acquire(fresh, { label: 'second' }))
  await until(async () => (await atGate(stage)) === 1)
  asked.push(fp.acquire(fresh, { label: 'third' }))
  // Whatever was to be sent for contended keys has been sent.
  expect(await fp.tryAcquire(key)).toBeNull()
  expect(await stage.line(fresh)).toHaveLength(1)
  await open()
  await until(async () => (await stage.line(fresh)).length === 3)
  const { pending } = await fp.query({ key: fresh })
  expect(pending.map(({ label }) => label)).toEqual(['first', 'second', 'third'])
  await Promise.all([holder.release(), other.release()])
  for (const each of [...asked, waiting.promise]) await (await each).release()
})

test('refused under a generation that was raised for a call lost on another connection: its session is not over', async () => {
  const fp = clients.direct({ ttl: '30s' })
  await clients.ready(fp)
  const held = await fp.acquire(stage.key('held'))
  const { other, waiting } = await inLine(fp)
  await hook(stage, 'acquire', {
    before: `if acquire.generation = 1 then ${stopAtGate} end if;`,
  })
  const open = await shutGate(stage)
  const cold = watched(fp.acquire(stage.key('cold')))
  const hot = watched(fp.acquire(key))
  await until(async () => (await atGate(stage)) === 2)
  await stage.sql(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'fencepost ask'`,
  )
  // The cold one is asked for again, under the next generation.
  const lock = await cold.promise
  await open()
  await until(async () => (await stage.line(key)).length === 2)
  expect([held.state, lock.state, waiting.state, hot.state]).toEqual(['held', 'held', 'open', 'open'])
  await other.release()
  await (await waiting.promise).release()
  await (await hot.promise).release()
})
