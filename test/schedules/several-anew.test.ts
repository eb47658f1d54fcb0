// A request for several keys whose session is over is asked for anew, under the same name, by the next one.
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

const ask = (actor: Actor, keys: readonly string[], request: string): Promise<Row[]> =>
  actor.sql('select * from $schema.acquire($1, 1, $2, $3, asks => $4)', [
    actor.session,
    keys,
    keys.map(() => request),
    keys.map(() => '{"wide": true}'),
  ])

test('it stands in all its lines by one commit, though a ticket of the dead session is left in one', async () => {
  const keys = [stage.key(), stage.key()] as [string, string]
  const cast = await Promise.all(['holder', 'before', 'after', 'other'].map(name => stage.actor(name)))
  const [holder, before, after, other] = cast as [Actor, Actor, Actor, Actor]
  const held = [await holder.acquire(keys[0]), await holder.acquire(keys[1])]
  const [request, rival] = [randomUUID(), randomUUID()]
  await ask(before, keys, request)
  await stage.sql('update $schema.sessions set died = clock_timestamp() where id = $1', [before.session])
  // As a hand-over that meets the dead at the head of one line leaves it.
  await stage.sql('delete from $schema.waiters where key = $1 and request = $2', [keys[0], request])
  await ask(after, keys, request)
  await ask(other, keys, rival)
  for (const key of keys) expect(await stage.line(key)).toEqual([after.session, other.session])
  for (const [i, { token }] of held.entries()) await holder.release(keys[i] as string, token)
  const granted = await after.sql('select * from $schema.tick($1, $2, $3)', [
    after.session,
    keys,
    keys.map(() => request),
  ])
  expect(granted.map(({ outcome }) => outcome)).toEqual(['granted', 'granted'])
})

test.each(['while it holds all of them', 'after another of them was given back'])(
  'asked for again with one of them made a shared lock, %s',
  async so => {
    const keys = [stage.key(), stage.key()] as [string, string]
    const holder = await stage.actor('holder')
    const request = randomUUID()
    const [made, other] = (await ask(holder, keys, request)) as [Row, Row]
    await holder.sql('select * from $schema.downgrade($1, $2, $3)', [holder.session, made.key, made.token])
    const isTorn = so !== 'while it holds all of them'
    if (isTorn) await holder.release(other.key as string, other.token)
    const again = await ask(holder, keys, request)
    const held = again.filter(({ outcome }) => outcome === 'granted')
    expect(held.map(({ key }) => key).sort()).toEqual([...keys].sort())
    const tokens = held.map(({ token }) => token).sort()
    if (isTorn) expect(tokens).not.toContain(made.token)
    else expect(tokens).toEqual([made.token, other.token].sort())
    for (const key of keys) expect(await stage.line(key)).toEqual([])
    for (const { key, token } of held) await holder.release(key as string, token)
  },
)
