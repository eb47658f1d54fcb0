import { afterAll, beforeAll, expect, test } from 'vitest'
import { Lane } from '../../src/database/lane.ts'
import { connector } from '../../src/database/target.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await createDatabase()
})
afterAll(() => db.drop())

const connections = async () =>
  (await db.query(`select from pg_stat_activity where application_name = 'fencepost idle'`)).length
const sleeping = (seconds: number) => () => ({ text: 'select pg_sleep($1)', values: [seconds] })

test('a connection that is not used for so long is ended, and opened again when it is needed', async () => {
  const lane = new Lane(connector(db.url, 'fencepost idle', db.schema), 100)
  await lane.query(sleeping(0), 5_000)
  expect(lane.isOpen).toBe(true)
  await until(async () => !lane.isOpen && (await connections()) === 0)
  await lane.query(sleeping(0), 5_000)
  expect(lane.isOpen).toBe(true)
  await lane.close()
  await until(async () => (await connections()) === 0)
})

test('not while a statement runs', async () => {
  const lane = new Lane(connector(db.url, 'fencepost idle', db.schema), 50)
  expect(await lane.query(sleeping(0.4), 5_000)).toHaveLength(1)
  await until(() => !lane.isOpen)
  await lane.close()
})

test('one without such a time stays', async () => {
  const lane = new Lane(connector(db.url, 'fencepost idle', db.schema))
  await lane.query(sleeping(0), 5_000)
  await lane.query(sleeping(0.2), 5_000)
  expect(lane.isOpen).toBe(true)
  await lane.close()
})
