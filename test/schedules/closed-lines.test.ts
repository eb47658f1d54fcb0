// Several keys are taken in a tick of the process that wants them, so it is to hear of each line that is closed for it.
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import type { Actor, Row } from './support/actor.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.create()
})
afterEach(async () => expect(await stage.clear()).toEqual(nothing))
afterAll(() => stage.drop())

const cast = (...names: string[]) => Promise.all(names.map(name => stage.actor(name))) as Promise<never>

/** Asks for several keys, or with a mode for one, and waits for them. */
async function ask(actor: Actor, keys: readonly string[], terms: object): Promise<string> {
  const request = randomUUID()
  const answers = await actor.sql(
    'select * from $schema.acquire($1, 1, $2, $3, asks => $4::text[]::jsonb[])',
    [actor.session, keys, keys.map(() => request), keys.map(() => JSON.stringify(terms))],
  )
  const own = answers.filter(answer => answer.request === request)
  expect(own).toMatchObject(keys.map(() => ({ outcome: 'queued' })))
  return request
}

const channels = (answers: readonly { outcome: string; key: string | null; channel: string | null }[]) =>
  answers.filter(({ outcome }) => outcome === 'handed').map(({ key, channel }) => [key, channel])

/** Sessions are opened without a channel here. */
const named = (actor: Actor, channel: string): Promise<Row[]> =>
  actor.sql('update $schema.sessions set channel = $2 where id = $1', [actor.session, channel])

test('a tick that finds another grant takes the keys that are closed for it as well', async () => {
  const [a, b, c] = [stage.key(), stage.key(), stage.key()]
  const [holder, waiter]: [Actor, Actor] = await cast('holder', 'waiter')
  const tokens: (bigint | null)[] = []
  for (const key of [a, b, c]) tokens.push((await holder.acquire(key)).token)
  const narrow = await ask(waiter, [a], { mode: 'shared' })
  const wide = await ask(waiter, [b, c], { wide: true })
  await holder.releaseAll([a, b, c], tokens)
  await stage.sql('update $schema.reaper set looked_at = clock_timestamp()')
  const answers = await waiter.tick([a, b, c], [narrow, wide, wide])
  expect(answers.map(({ request, outcome, key }) => [request, outcome, key]).sort()).toEqual(
    [
      [narrow, 'granted', a],
      [wide, 'granted', b],
      [wide, 'granted', c],
    ].sort(),
  )
})

test('who wants several keys next is told when the one before it gives up, once', async () => {
  const [a, b] = [stage.key(), stage.key()]
  const [holder, first, next]: [Actor, Actor, Actor] = await cast('holder', 'first', 'next')
  await named(next, 'next')
  await named(first, 'first')
  const { token } = await holder.acquire(a)
  const given = await ask(first, [a, b], { wide: true })
  const wide = await ask(next, [a, b], { wide: true })
  expect(channels(await holder.release(a, token))).toEqual([[a, 'first']])
  expect(channels(await first.cancel([a, b], [given, given])).sort()).toEqual(
    [
      [a, 'next'],
      [b, 'next'],
    ].sort(),
  )
  // Whoever comes by says nothing anew.
  const passing = randomUUID()
  expect(channels(await holder.acquireAll([a, b], [passing, passing], [false, false]))).toEqual([])
  const answers = await next.tick([a, b], [wide, wide])
  expect(answers.map(({ request, outcome }) => [request, outcome])).toEqual([
    [wide, 'granted'],
    [wide, 'granted'],
  ])
})
