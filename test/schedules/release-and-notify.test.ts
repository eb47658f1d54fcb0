// Releasing and waking in one round trip: the hand-over is committed before anybody is told, and whatever becomes of that.
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import { until } from '../support/until.ts'
import type { Actor } from './support/actor.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
let holder: Actor
let next: Actor
let key: string
beforeAll(async () => {
  stage = await Stage.create()
})
beforeEach(async () => {
  key = stage.key()
  ;[holder, next] = [await stage.actor('holder'), await stage.actor('next')]
})
afterEach(async () => expect(await stage.clear()).toEqual(nothing))
afterAll(() => stage.drop())

/** What is said on a channel, and what the listener sees of the key when it hears it. */
async function listener(channel: string) {
  const client = new pg.Client({ connectionString: stage.db.url })
  await client.connect()
  stage.atEnd(() => client.end())
  const heard: { payload: string | undefined; holder: string | null | undefined }[] = []
  client.on('notification', async ({ payload }) => {
    heard.push({ payload, holder: (await stage.lock(key))?.session })
  })
  await client.query(`listen ${pg.escapeIdentifier(channel)}`)
  return heard
}

const says = (actor: Actor, channel: string) =>
  stage.sql('update $schema.sessions set channel = $2 where id = $1', [actor.session, channel])
async function inLine(): Promise<bigint> {
  const { token } = await holder.acquire(key)
  await next.acquire(key)
  return token as bigint
}
async function give(keys: string[], tokens: bigint[], own: string | null = 'its own'): Promise<unknown[][]> {
  const [row] = await holder.sql('call $schema.release_and_notify($1, $2, $3, null, $4)', [
    holder.session,
    keys,
    tokens.map(String),
    own,
  ])
  return row?.answers ?? []
}

test('who is next hears of it when it has the key', async () => {
  const token = await inLine()
  await says(next, 'next one')
  const heard = await listener('next one')
  const answers = await give([key], [token])
  expect(answers.map(answer => [answer[1], answer[3], answer[4], answer[7]])).toEqual([
    ['handed', key, null, 'next one'],
  ])
  await until(() => heard.length > 0)
  expect(heard).toEqual([{ payload: JSON.stringify([key]), holder: next.session }])
})

test('what nobody waits for is released, and nothing is said', async () => {
  const { token } = await holder.acquire(key)
  expect(await give([key], [token as bigint])).toEqual([])
  expect(await stage.lock(key)).toBeUndefined()
})

test('one’s own channel is in the answer, and nobody is told there', async () => {
  const token = await inLine()
  await says(next, 'its own')
  const heard = await listener('its own')
  expect((await give([key], [token])).map(answer => [answer[1], answer[4], answer[6]])).toEqual([
    ['handed', 'its own', null],
  ])
  await stage.sql(`select pg_notify('its own', 'later')`)
  await until(() => heard.length > 0)
  expect(heard.map(({ payload }) => payload)).toEqual(['later'])
})

test('a channel that is none keeps nobody else from hearing, and the key from nothing', async () => {
  const token = await inLine()
  const [also, third] = [stage.key('also'), await stage.actor('third')]
  const { token: other } = await holder.acquire(also)
  await third.acquire(also)
  await says(next, 'x'.repeat(200))
  await says(third, 'third')
  const heard = await listener('third')
  await give([key, also], [token, other as bigint])
  await until(() => heard.length > 0)
  expect(await stage.lock(key)).toMatchObject({ session: next.session })
  expect(await stage.lock(also)).toMatchObject({ session: third.session })
})

test('more keys than a notification holds: look at everything', async () => {
  const long = Array.from({ length: 12 }, (_, i) => `${i} ${'k'.repeat(900)}`)
  await holder.acquireAll(long)
  await next.acquireAll(long)
  await says(next, 'next one')
  const heard = await listener('next one')
  const rows = await Promise.all(long.map(each => stage.lock(each)))
  await give(
    long,
    rows.map(row => row?.token as bigint),
  )
  await until(() => heard.length > 0)
  expect(heard.map(({ payload }) => payload)).toEqual([''])
})

test('more than one key to ask for anew is refused, and nothing is given back', async () => {
  const also = stage.key('also')
  const { token } = await holder.acquire(key)
  const { token: other } = await holder.acquire(also)
  const call = holder.sql(
    'call $schema.release_and_notify($1, $2, $3, null, $4, 1, array[gen_random_uuid()])',
    [holder.session, [key, also], [String(token), String(other)], 'its own'],
  )
  await expect(call).rejects.toMatchObject({ code: 'FP005' })
  expect([await stage.lock(key), await stage.lock(also)]).toMatchObject([{ token }, { token: other }])
})
