// Several processes, of which some are killed or stopped.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { inSchema } from '../forgery/support/sql.ts'
import { Child } from '../support/child.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { twist } from '../support/twist.ts'
import { until } from '../support/until.ts'

const script = new URL('./worker.mjs', import.meta.url)
const eachSecond = '* * * * * *'
const listening = twist.name === 'nolisten' ? { listen: false } : {}

let db: TestDatabase
let children: Child[] = []
beforeAll(async () => {
  db = await createDatabase()
})
beforeEach(async () => {
  for (const table of ['ticks', 'schedule_nodes', 'schedules', 'once'])
    await db.query(inSchema(db, `delete from $schema.${table}`))
})
afterEach(async () => {
  await Promise.all(children.map(child => child.kill()))
  children = []
})
afterAll(() => db.drop())

async function process(owner: string, ttl = '2s'): Promise<Child> {
  const options = { connectionString: db.twistedUrl, schema: db.schema, owner, ttl, ...listening }
  const child = new Child(script, { args: [JSON.stringify(options)] })
  children.push(child)
  await child.message('ready')
  return child
}

interface Row {
  readonly slot: number
  readonly state: string
  readonly attempt: number
  readonly owner: string | null
  readonly error: string | null
}
const ticks = (name = 's'): Promise<Row[]> =>
  db.query<Row & Record<string, unknown>>(
    inSchema(
      db,
      `select extract(epoch from slot)::float8 * 1000 as slot, state, attempt, owner, error
         from $schema.ticks where name = $1 order by slot`,
    ),
    [name],
  )

const slots = (child: Child, name: string) =>
  child.said.filter(said => said.name === name).map(({ slot }) => slot as number)

test('three processes, of which two have clocks of their own: each slot runs once', async () => {
  const crew = await Promise.all(['a', 'b', 'c'].map(owner => process(owner)))
  crew[1]?.send('step', { ms: 3_600_000 })
  crew[2]?.send('step', { ms: -3_600_000 })
  for (const child of crew) child.send('schedule', { id: 's', cron: eachSecond, ms: 5 })
  await until(async () => (await ticks()).filter(({ state }) => state === 'finished').length >= 6)
  for (const child of crew) child.send('stop', { id: 's' })
  await Promise.all(crew.map(child => child.message('stopped')))
  const ran = crew.flatMap(child => slots(child, 'ran')).sort((a, b) => a - b)
  expect(new Set(ran).size).toBe(ran.length)
  const rows = await ticks()
  expect(rows.filter(({ state }) => state === 'finished').map(({ slot }) => slot)).toEqual(ran)
  // Where a lease is long in changing hands, the one before is recorded as missed.
  expect(rows.map(({ slot }) => slot)).toEqual(rows.map((_, i) => (rows[0]?.slot ?? 0) + i * 1_000))
})

test('one is killed while it runs a tick: that has failed, and the next ones run', async () => {
  const [victim, other] = [await process('victim'), await process('other')]
  victim.send('schedule', { id: 's', cron: eachSecond, ms: null })
  const { slot } = await victim.message('began')
  other.send('schedule', { id: 's', cron: eachSecond, ms: 0 })
  await other.message('scheduled')
  await victim.kill()
  await until(() => slots(other, 'ran').length > 1)
  const rows = await ticks()
  expect(rows.find(row => row.slot === slot)).toMatchObject({
    state: 'failed',
    attempt: 1,
    owner: 'victim',
    error: 'its runner was lost',
  })
  expect(slots(other, 'ran')).not.toContain(slot)
  const seen = new Set(rows.map(row => row.slot))
  for (let at = slot as number; at < (slots(other, 'ran').at(-1) as number); at += 1_000)
    expect(seen.has(at)).toBe(true)
})

test('one is killed while it runs a tick that may be tried again: another runs it', async () => {
  const settings = { retry: { attempts: 2 } }
  const [victim, other] = [await process('victim'), await process('other')]
  victim.send('schedule', { id: 's', cron: eachSecond, ms: null, settings })
  const { slot } = await victim.message('began')
  other.send('schedule', { id: 's', cron: eachSecond, ms: 0, settings })
  await other.message('scheduled')
  await victim.kill()
  expect(await other.message('began')).toMatchObject({ slot, attempt: 2 })
  await until(async () => (await ticks()).find(row => row.slot === slot)?.state === 'finished')
  expect((await ticks()).find(row => row.slot === slot)).toMatchObject({ attempt: 2, owner: 'other' })
})

test('one stands still while it runs: another takes over, and what the first does when it wakes is not recorded', async () => {
  const [sleeper, other] = [await process('sleeper'), await process('other')]
  sleeper.send('schedule', { id: 's', cron: eachSecond, ms: 100 })
  const { slot } = await sleeper.message('began')
  sleeper.stop()
  other.send('schedule', { id: 's', cron: eachSecond, ms: 0 })
  await until(() => slots(other, 'ran').length > 0)
  sleeper.cont()
  await until(() => slots(sleeper, 'ran').includes(slot as number))
  const before = slots(other, 'ran').length + slots(sleeper, 'ran').length
  await until(() => slots(other, 'ran').length + slots(sleeper, 'ran').length > before + 1)
  const rows = await ticks()
  expect(rows.find(row => row.slot === slot)).toMatchObject({ state: 'failed', owner: 'sleeper' })
  const both = [...slots(other, 'ran'), ...slots(sleeper, 'ran')]
  expect(new Set(both).size).toBe(both.length)
})

test('a tick that is due within milliseconds of a takeover runs once', { timeout: 60_000 }, async () => {
  const names = Array.from({ length: 8 }, (_, i) => `s${i}`)
  for (let round = 0; round < 3; round++) {
    const [victim, ...others] = await Promise.all(['victim', 'b', 'c'].map(owner => process(owner, '1s')))
    const ids = names.map(name => `${name} ${round}`)
    for (const id of ids) victim?.send('schedule', { id, cron: eachSecond, ms: null })
    for (const _ of ids) await victim?.message('began')
    for (const id of ids) for (const child of others) child.send('schedule', { id, cron: eachSecond, ms: 1 })
    for (const child of others) for (const _ of ids) await child.message('scheduled')
    // Its session ends two thirds of a second to a second later: about when the next ticks are due.
    await new Promise(resolve => setTimeout(resolve, (2_100 - (Date.now() % 1_000) + round * 150) % 1_000))
    await victim?.kill()
    const began = (id: string) =>
      others.flatMap(child => child.said.filter(said => said.name === 'began' && said.id === id))
    await until(() => ids.every(id => began(id).length >= 2))
    await Promise.all(others.map(child => child.kill()))
    for (const id of ids) {
      const mine = began(id).map(({ slot }) => slot as number)
      expect(new Set(mine).size).toBe(mine.length)
      const rows = await ticks(id)
      for (const slot of mine) expect(rows.find(row => row.slot === slot)?.attempt).toBe(1)
      const all = rows.map(row => row.slot)
      expect(all).toEqual(all.map((_, i) => (all[0] as number) + i * 1_000))
    }
  }
})

test('once: the one that works is killed, and another works after its lease', async () => {
  const [victim, other] = [await process('victim'), await process('other')]
  victim.send('once', { key: 'k', ms: null, value: 'never' })
  await victim.message('began')
  other.send('once', { key: 'k', ms: 1, value: 'theirs' })
  await victim.kill()
  expect(await other.message('done')).toMatchObject({ value: 'theirs' })
  const late = await process('late')
  late.send('once', { key: 'k', ms: 1, value: 'late' })
  expect(await late.message('done')).toMatchObject({ value: 'theirs' })
})

test('once: the one that works stands still, and what it has in the end is not recorded', async () => {
  const [sleeper, other] = [await process('sleeper'), await process('other')]
  sleeper.send('once', { key: 'k', ms: 100, value: 'late' })
  await sleeper.message('began')
  sleeper.stop()
  other.send('once', { key: 'k', ms: 1, value: 'theirs' })
  expect(await other.message('done')).toMatchObject({ value: 'theirs' })
  sleeper.cont()
  expect(await sleeper.message('failed')).toMatchObject({ code: 'lost' })
})

test('a schedule keeps its process alive until its client is closed', async () => {
  const child = new Child(new URL('./alive.mjs', import.meta.url), { args: [db.twistedUrl, db.schema] })
  children.push(child)
  expect(await child.exit).toBe(0)
  expect(child.said).toEqual([{ name: 'ran' }])
  expect(await db.query(inSchema(db, 'select from $schema.schedule_nodes'))).toEqual([])
})
