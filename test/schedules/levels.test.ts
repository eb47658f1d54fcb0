// What fences compare rises along the grants of a key, whoever held it in between, and however.
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

async function ask(actor: Actor, keys: readonly string[], request: string, terms: object): Promise<Row[]> {
  return await actor.sql('select * from $schema.acquire($1, 1, $2, $3, asks => $4)', [
    actor.session,
    keys,
    keys.map(() => request),
    keys.map(() => JSON.stringify(terms)),
  ])
}

test('a reader’s is that of the last of a run, also where the line was closed in between', async () => {
  const [key, other] = [stage.key(), stage.key()]
  const cast = await Promise.all(['holder', 'runners', 'wide', 'reader'].map(name => stage.actor(name)))
  const [holder, runners, wide, reader] = cast as [Actor, Actor, Actor, Actor]
  const { token } = await holder.acquire(key)
  const taken = await holder.acquire(other)
  await runners.acquireAll([key, key])
  const [both, shared] = [randomUUID(), randomUUID()]
  await ask(wide, [key, other], both, { wide: true })
  await ask(reader, [key], shared, { mode: 'shared' })
  await holder.release(key, token)
  const last = BigInt((await stage.lock(key))?.token ?? 0) + 1n
  expect(await stage.sql('select token_to from $schema.locks where key = $1', [key])).toEqual([
    { token_to: String(last) },
  ])
  await runners.sql('select $schema.fence($1, $2)', [key, last])
  expect(await runners.release(key, last)).toMatchObject([{ outcome: 'released' }, { outcome: 'handed' }])
  expect(await stage.lock(key)).toMatchObject({ session: null })
  await wide.cancel([key, other], [both, both])
  const [granted] = await reader.sql('select * from $schema.tick($1, $2, $3)', [
    reader.session,
    [key],
    [shared],
  ])
  expect(granted?.outcome).toBe('granted')
  await reader.sql('select $schema.fence($1, $2)', [key, granted?.level])
  await holder.release(other, taken.token)
})
