// A process that closes its client, and does nothing more, ends by itself.
import { afterEach, expect, test } from 'vitest'
import type { Child } from '../support/child.ts'
import { type PostgresProxy, startProxy } from '../support/proxy.ts'
import { twist } from '../support/twist.ts'
import { until } from '../support/until.ts'
import { Stage } from './stage.ts'

const stage = new Stage()
let proxy: PostgresProxy | undefined
afterEach(async () => {
  await proxy?.close()
  proxy = undefined
})

async function endsByItself(child: Child): Promise<void> {
  expect((await child.message('exit')).lingered).toBeLessThan(1_000)
  expect(await child.exit).toBe(0)
}

test('one that held a lock', async () => {
  const child = stage.start('closes')
  await endsByItself(child)
  expect(await stage.holders()).toBe(0)
})

test('one whose transactions never end: they are given up', async () => {
  const child = stage.start('closes under transactions')
  const { reasons } = await child.message('closed')
  expect(new Set(reasons as string[])).toEqual(new Set(['lost shutdown']))
  await endsByItself(child)
  expect(await stage.sql('select from $schema.locks')).toEqual([])
})

// A pooler has connections of its own to the server, and a mind of its own about those that fall silent.
test.skipIf(twist.name === 'pgbouncer')('one whose database has fallen silent', async () => {
  proxy = await startProxy(stage.db.url)
  const child = stage.start('closes a black hole', proxy.url(stage.db.url))
  await child.message('inside')
  proxy.blackHole()
  process.kill(child.pid, 'SIGUSR2')
  const { codes } = await child.message('closed')
  expect(codes).toHaveLength(2)
  await endsByItself(child)
})

test.skipIf(twist.name === 'pgbouncer')('one whose database has never answered', async () => {
  proxy = await startProxy(stage.db.url)
  proxy.blackHole()
  const child = stage.start('closes before it is let in', proxy.url(stage.db.url))
  await until(() => proxy?.counters.bytes.toServer)
  process.kill(child.pid, 'SIGUSR2')
  expect(await child.message('closed')).toMatchObject({ code: 'closed' })
  await endsByItself(child)
})

test('one with a pool of its own: that is not closed', async () => {
  const child = stage.start('uses a pool')
  expect(await child.message('closed')).toMatchObject({ rows: [{ one: 1 }], clients: 1 })
  await endsByItself(child)
  await until(async () => (await stage.holders()) === 0)
})
