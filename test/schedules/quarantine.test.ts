// Where commits may be gone, a grant may be among them whose holder goes on believing in it. For max_ttl only those are granted a
// key who were in line before; told by records that were forged.
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import type { Actor } from './support/actor.ts'
import { incarnation } from './support/incarnation.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.create()
  await useIt()
})
afterEach(async () => {
  await stage.sql(`update $schema.cluster set replication = 'asynchronous', max_ttl = '60s'`)
  expect(await stage.clear()).toEqual(nothing)
})
afterAll(() => stage.drop())

/** As if this server had been promoted, with commits lost. */
const promote = () => stage.sql('update $schema.cluster set timeline = timeline - 1')
/** Somebody has held a lock: from then on there is something to lose. */
async function useIt(): Promise<void> {
  const first = await stage.actor('first')
  const key = stage.key()
  await first.release(key, (await first.acquire(key)).token)
  await first.close()
}
const asks = (terms: object, count = 1) => Array(count).fill(JSON.stringify(terms))

async function acquireOn(actor: Actor, keys: readonly string[], terms: object, wait = true) {
  const request = randomUUID()
  const rows = await actor.sql('select * from $schema.acquire($1, 1, $2, $3, $4, asks => $5)', [
    actor.session,
    keys,
    keys.map(() => request),
    keys.map(() => wait),
    asks(terms, keys.length),
  ])
  return { request, outcomes: rows.filter(row => row.request === request).map(row => row.outcome) }
}

async function outcomesOf(actor: Actor, keys: readonly string[], request: string): Promise<string[]> {
  const answers = await actor.tick(
    keys,
    keys.map(() => request),
  )
  return answers.filter(answer => answer.request === request).map(answer => answer.outcome)
}

describe('it begins', () => {
  test.each([
    ['with another timeline', 'update $schema.cluster set timeline = timeline - 1'],
    ['with another system', 'update $schema.cluster set system_identifier = 1, timeline = timeline + 1'],
    ['with another database', 'update $schema.cluster set database_oid = 1'],
    ['with another copy of the table', 'update $schema.cluster set cluster_oid = 1'],
  ])('%s, and lasts for max_ttl', async (_, change) => {
    const actor = await stage.actor('actor')
    await stage.sql(`update $schema.cluster set max_ttl = '40s'`)
    await stage.sql(change)
    expect(await actor.acquire(stage.key(), { wait: false })).toMatchObject({ outcome: 'busy' })
    const { outcome, expires_in: left } = await actor.acquire(stage.key())
    expect(outcome).toBe('queued')
    expect(left).toBeGreaterThan(20_000)
    expect(left).toBeLessThanOrEqual(40_000)
  })

  test('where a client has seen a base that is not there any more', async () => {
    const actor = await stage.actor('actor')
    const { base } = await incarnation(stage)
    expect(await actor.acquire(stage.key(), { wait: false, seen: { base: base + 5n } })).toMatchObject({
      outcome: 'busy',
    })
  })

  test.each([
    ['after a crash', 'delete from $schema.canary'],
    ['after a restart', `update $schema.cluster set started_at = started_at - interval '1 microsecond'`],
  ])('not %s, which loses no commit', async (_, change) => {
    const actor = await stage.actor('actor')
    await stage.sql(change)
    expect(await actor.acquire(stage.key(), { wait: false })).toMatchObject({ outcome: 'granted' })
  })

  test('not in the copy of a schema that nobody has used', async () => {
    const fresh = await Stage.create()
    try {
      const actor = await fresh.actor('actor', null)
      await fresh.sql('update $schema.cluster set database_oid = 1')
      await actor.open()
      expect(await actor.acquire(fresh.key(), { wait: false })).toMatchObject({ outcome: 'granted' })
      await fresh.sql('update $schema.cluster set database_oid = 1')
      expect(await actor.acquire(fresh.key(), { wait: false })).toMatchObject({ outcome: 'busy' })
      await fresh.clear()
    } finally {
      await fresh.drop()
    }
  })

  test('not where the operator has said that nothing is lost', async () => {
    const actor = await stage.actor('actor')
    await stage.sql(`select $schema.configure(replication => 'synchronous')`)
    await promote()
    expect(await actor.acquire(stage.key(), { wait: false })).toMatchObject({ outcome: 'granted' })
  })
})

test('a newcomer rests in line, and is granted when it is over', async () => {
  const [key, actor, request] = [stage.key(), await stage.actor('actor'), randomUUID()]
  await promote()
  expect(await actor.acquire(key, { request })).toMatchObject({ outcome: 'queued' })
  await stage.reapDue()
  expect(await outcomesOf(actor, [key], request)).toEqual(['queued'])
  expect(await stage.lock(key)).toMatchObject({ session: null })
  await stage.endQuarantine()
  expect(await outcomesOf(actor, [key], request)).toEqual(['granted'])
})

test('who was in line before is granted by a release, and the newcomer behind is not, nor by the next', async () => {
  const key = stage.key()
  const [holder, before, newcomer] = [
    await stage.actor('holder'),
    await stage.actor('before'),
    await stage.actor('newcomer'),
  ]
  const { token } = await holder.acquire(key)
  await before.acquire(key)
  await promote()
  await newcomer.acquire(key)
  await holder.release(key, token)
  const held = await stage.lock(key)
  expect(held).toMatchObject({ session: before.session })
  await before.release(key, held?.token ?? null)
  expect(await stage.lock(key)).toMatchObject({ session: null, released: true })
  expect(await stage.line(key)).toEqual([newcomer.session])
})

test('a run ends before who came since', async () => {
  const key = stage.key()
  const [holder, process] = [await stage.actor('holder'), await stage.actor('process')]
  const { token } = await holder.acquire(key)
  await process.acquire(key)
  await promote()
  await process.acquire(key)
  await holder.release(key, token)
  const [row] = await stage.sql('select session, token_to from $schema.locks where key = $1', [key])
  expect(row).toEqual({ session: process.session, token_to: null })
})

test('who gives a key back and asks anew is a newcomer', async () => {
  const [key, holder, request] = [stage.key(), await stage.actor('holder'), randomUUID()]
  const { token } = await holder.acquire(key)
  await promote()
  await holder.releaseAndAcquire(key, token, [request])
  expect((await holder.acquire(key, { request })).outcome).toBe('queued')
  expect((await stage.lock(key))?.session).toBeNull()
})

test.each([
  ['shared', { mode: 'shared' }],
  ['permits', { mode: 'permits', permits: 1, capacity: 3 }],
])('%s: who came since is not served beside who holds', async (_, terms) => {
  const [key, one, two] = [stage.key(), await stage.actor('one'), await stage.actor('two')]
  expect((await acquireOn(one, [key], terms)).outcomes).toEqual(['granted'])
  await promote()
  const { request, outcomes } = await acquireOn(two, [key], terms)
  expect(outcomes).toEqual(['queued'])
  expect((await acquireOn(two, [key], terms, false)).outcomes).toEqual(['busy'])
  await stage.endQuarantine()
  expect(await outcomesOf(two, [key], request)).toEqual(['granted'])
})

test('several keys: nothing of them is granted before it is over', async () => {
  const [keys, actor] = [[stage.key('a'), stage.key('b')], await stage.actor('actor')]
  await promote()
  const { request, outcomes } = await acquireOn(actor, keys, { wide: true })
  expect(outcomes).toEqual(['queued', 'queued'])
  expect(await outcomesOf(actor, keys, request)).toEqual(['queued', 'queued'])
  await stage.endQuarantine()
  await stage.reapDue()
  await actor.tick(
    keys,
    keys.map(() => request),
  )
  expect(await outcomesOf(actor, keys, request)).toEqual(['granted', 'granted'])
})

test('what is held goes on: renewed, and given back', async () => {
  const [key, holder] = [stage.key(), await stage.actor('holder')]
  const { token } = await holder.acquire(key)
  await promote()
  expect(await holder.heartbeat()).toMatchObject({ renewed: true })
  expect((await holder.release(key, token))[0]?.outcome).toBe('released')
})

test('a try is answered, once, also where the key is given back meanwhile', async () => {
  const [holder, other] = [await stage.actor('holder'), await stage.actor('other')]
  const keys = Array.from({ length: 1_000 }, () => stage.key())
  const ids = () => keys.map(() => randomUUID())
  await holder.sql('select * from $schema.acquire($1, 1, $2, $3)', [holder.session, keys, ids()])
  const held = await stage.sql('select key, token from $schema.locks where key = any ($1)', [keys])
  await promote()
  const tries = ids()
  let isAnswered = false
  const tried = other
    .sql('select * from $schema.acquire($1, 1, $2, $3, $4)', [
      other.session,
      keys,
      tries,
      keys.map(() => false),
    ])
    .finally(() => {
      isAnswered = true
    })
  let given = 0
  for (const { key, token } of held) {
    if (!isAnswered) given += 1
    await holder.release(key, token)
  }
  expect(given).toBeGreaterThan(1)
  const answered = (await tried).filter(({ request }) => request !== null).map(({ request }) => request)
  expect(answered.sort()).toEqual(tries.sort())
})
