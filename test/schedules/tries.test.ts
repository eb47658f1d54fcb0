// Tries among those who wait: in line for the length of a call, and then nobody stands behind them.
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

interface Ask {
  readonly wait: boolean
  readonly terms: object
}

/** What becomes of requests for one key, in one call and in this order. */
async function ask(actor: Actor, key: string, asks: readonly Ask[]): Promise<(string | undefined)[]> {
  const requests = asks.map(() => randomUUID())
  const answers: Row[] = await actor.sql('select * from $schema.acquire($1, 1, $2, $3, $4, asks => $5)', [
    actor.session,
    asks.map(() => key),
    requests,
    asks.map(({ wait }) => wait),
    asks.map(({ terms }) => JSON.stringify(terms)),
  ])
  return requests.map(request => answers.find(answer => answer.request === request)?.outcome)
}

const permits = (count: number) => ({ mode: 'permits', permits: count, capacity: 2 })

test('who asked for a permit in the call of a try for more than are free is not kept waiting by it', async () => {
  const key = stage.key()
  const [holder, other] = [await stage.actor('holder'), await stage.actor('other')]
  expect(await ask(holder, key, [{ wait: true, terms: permits(1) }])).toEqual(['granted'])
  const heavy = { wait: false, terms: permits(2) }
  expect(await ask(other, key, [heavy, { wait: true, terms: permits(1) }])).toEqual(['busy', 'granted'])
})

test('nor a reader by a writer’s try', async () => {
  const key = stage.key()
  const [holder, other] = [await stage.actor('holder'), await stage.actor('other')]
  const reader = { wait: true, terms: { mode: 'shared' } }
  expect(await ask(holder, key, [reader])).toEqual(['granted'])
  expect(await ask(other, key, [{ wait: false, terms: {} }, reader])).toEqual(['busy', 'granted'])
})
