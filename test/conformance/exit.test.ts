import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import { Child } from '../support/child.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { leftovers } from '../support/leftovers.ts'
import { clientOptions } from '../support/twist.ts'
import { until } from '../support/until.ts'
import { listenUrl, ways } from './ways.ts'

const script = new URL('./exit.mjs', import.meta.url)

let db: TestDatabase
let other: Fencepost
beforeAll(async () => {
  db = await createDatabase()
  other = new Fencepost(clientOptions(db))
  await other.acquire('taken')
})
afterAll(async () => {
  await other.close()
  await db.drop()
})

function run(way: string, deed: string): Child {
  const how = { way, url: db.twistedUrl, listenUrl: listenUrl(db), schema: db.schema }
  return new Child(script, { args: [JSON.stringify(how), deed] })
}

const held = async () => (await leftovers(db.pool({ max: 1 }), db.schema)).grants - 1

// A process that never calls close.
describe.each(Object.keys(ways))('%s', way => {
  test.each(['releases', 'runs a section', 'gives up', 'is refused', 'releases at last'])(
    'a process that %s ends by itself, and leaves no lock',
    async deed => {
      await using child = run(way, deed)
      const { lingered } = await child.message('exit')
      expect(lingered).toBeLessThan(1_000)
      expect(await child.exit).toBe(0)
      // That it polls is said once, and is no failure.
      const failures = child.log.filter(line => !/FENCEPOST_POLLING|--trace-warnings/.test(line))
      expect([await held(), failures]).toEqual([0, []])
    },
  )
})

test('a process that still waits does not end', async () => {
  await using child = run('a pool', 'waits')
  const waiting = async () => (await leftovers(db.pool({ max: 1 }), db.schema)).tickets
  await until(async () => (await waiting()) === 1)
  await expect(child.message('exit', { within: 500 })).rejects.toThrow('not reached')
  expect(await child.kill()).toBe('SIGKILL')
  await db.query(
    `update ${pg.escapeIdentifier(db.schema)}.sessions set expires_at = '-infinity' where owner like '%:' || $1`,
    [child.pid],
  )
  // Nobody waits for it: the next tick of anybody clears it away, at the latest with a heartbeat.
  await until(async () => {
    await db.query(`select from ${pg.escapeIdentifier(db.schema)}.tick(gen_random_uuid())`)
    return (await waiting()) === 0
  })
})

test('a process that holds a lock and has ended leaves it to its ttl', async () => {
  await using child = run('a pool', 'holds')
  await child.message('exit')
  expect(await child.exit).toBe(0)
  expect(await held()).toBe(1)
})
