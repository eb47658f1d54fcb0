import { afterAll, beforeAll, expect, test } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { clientOptions } from '../support/twist.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await createDatabase()
})
afterAll(() => db.drop())

// Coming versions of the driver do not queue: on one connection one query waits for another with us.
test('the driver has nothing to say to many calls at once', async () => {
  const warnings: string[] = []
  const warned = (warning: Error) => void warnings.push(`${warning.name}: ${warning.message}`)
  process.on('warning', warned)
  const client = new Fencepost({ ...clientOptions(db), maxPending: 1_000 })
  const ttls = ['10s', '11s', '12s', '13s', '14s', '15s']
  const locks = await Promise.all(ttls.map(ttl => client.acquire(`key of ${ttl}`, { ttl })))
  await Promise.all(locks.map(lock => lock.renew()))
  await Promise.allSettled([
    ...locks.map(lock => lock.renew()),
    ...ttls.map(async ttl => await (await client.tryAcquire('another', { ttl }))?.release()),
    ...locks.map(lock => lock.release()),
  ])
  await client.close()
  await new Promise(setImmediate)
  process.off('warning', warned)
  expect(warnings.filter(warning => !warning.includes('by polling'))).toEqual([])
})
