// A process whose event loop is busy does not notice that its lock is lost; with a watchdog it is gone by then.
import { afterEach, describe, expect, test } from 'vitest'
import { Child } from '../support/child.ts'
import { canBeFirst, startFirst } from '../support/first-process.ts'
import { type PostgresProxy, startProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'
import { Stage, ttl } from './stage.ts'

const stage = new Stage()
/** Long enough for the next one to be granted whatever the holder had. */
const long = 60_000
let proxy: PostgresProxy | undefined
afterEach(async () => {
  await proxy?.close()
  proxy = undefined
})

test('its loop is blocked for 3 ttls: it is killed, and one line says why', async () => {
  const holder = await stage.holder()
  await holder.hold('blocked')
  holder.send('block', { ms: 3 * ttl })
  expect(await holder.exit).toBe('SIGKILL')
  expect(holder.lastWords).toEqual([
    expect.stringMatching(
      new RegExp(`^fencepost: watchdog: a lock was lost \\d+ ms ago.* process ${holder.pid} `),
    ),
  ])
  expect(holder.said.map(({ name }) => name)).not.toContain('unblocked')
  await (await stage.next('blocked')).release()
})

test('without a watchdog it lives, and sends nothing through its handle any more', async () => {
  const holder = await stage.holder({ watchdog: false })
  await holder.hold('unwatched')
  holder.send('block and use', { ms: 3 * ttl, key: 'unwatched' })
  const next = await stage.next('unwatched')
  const { outcomes, sent } = await holder.message('used')
  expect(outcomes).toEqual({ transaction: 'lost', guard: 'lost', renew: 'lost', downgrade: 'lost' })
  // That the session is over is told to the database; nothing else is.
  expect((sent as string[]).filter(text => !text.includes('close_session'))).toEqual([])
  await next.release()
})

describe('it lives', () => {
  test('when its loop is blocked for less than its trust', async () => {
    const holder = await stage.holder()
    await holder.hold('brief')
    expect(await holder.block(ttl / 3)).toMatchObject({ states: { brief: 'held' } })
    await holder.release('brief')
  })

  test('when nothing is held any more', async () => {
    const holder = await stage.holder()
    await holder.hold('given back')
    await holder.release('given back')
    expect(await holder.block(3 * ttl)).toMatchObject({ states: { 'given back': 'released' } })
  })

  test('for as long as its renewals are answered', async () => {
    const holder = await stage.holder()
    await holder.hold('renewed')
    const renewals = async () => {
      const [row] = await stage.sql(
        `select expires_at > since + interval '${4 * ttl} ms' as yes from $schema.held where key = 'renewed'`,
      )
      return row?.yes
    }
    await until(renewals, { what: 'renewed for three ttls' })
    await holder.release('renewed')
  })

  test('when its client is closed', async () => {
    const holder = await stage.holder()
    await holder.hold('closed')
    holder.send('close')
    await holder.message('closed')
    expect(await holder.block(3 * ttl)).toMatchObject({ states: { closed: 'lost' } })
  })

  test('when the database is away: its loop is free, and notices the loss', async () => {
    proxy = await startProxy(stage.db.url)
    const holder = await stage.holder({}, proxy.url(stage.db.url))
    await holder.hold('away')
    proxy.blackHole()
    expect(await holder.message('lost')).toMatchObject({ key: 'away', reason: 'unreachable' })
    expect(await holder.block(ttl)).toMatchObject({ states: { away: 'lost' } })
  })

  test('when it was stopped for longer than its ttl: its loop is free, and notices as soon as it goes on', async () => {
    const holder = await stage.holder()
    await holder.hold('stopped')
    holder.stop()
    const next = await stage.next('stopped')
    holder.cont()
    expect(await holder.message('lost')).toMatchObject({ key: 'stopped' })
    expect(await holder.block(ttl)).toMatchObject({ states: { stopped: 'lost' } })
    await next.release()
  })
})

describe('an operator took what it holds', () => {
  test('it is told, and lives: the watchdog knows of the end of trust, and of nothing else', async () => {
    const holder = await stage.holder()
    await holder.hold('forced')
    await stage.force('forced')
    expect(await holder.message('lost')).toMatchObject({ key: 'forced', reason: 'forced' })
    expect(await holder.block(3 * ttl)).toMatchObject({ states: { forced: 'lost' } })
    expect(holder.lastWords).toEqual([])
  })

  test('those who are told of it keep its loop busy: it is killed when trust would have ended', async () => {
    const holder = await stage.holder()
    await holder.hold('forced on', { lingers: long })
    await stage.force('forced on')
    expect(await holder.message('lost')).toMatchObject({ key: 'forced on', reason: 'forced' })
    expect(await holder.exit).toBe('SIGKILL')
    expect(holder.lastWords).toHaveLength(1)
    await (await stage.next('forced on')).release()
  })
})

describe('it is killed', () => {
  test('when it goes on after it was stopped, and its loop is busy', async () => {
    const holder = await stage.holder()
    await holder.hold('both')
    holder.send('block', { ms: long })
    await holder.message('blocking')
    holder.stop()
    await (await stage.next('both')).release()
    holder.cont()
    expect(await holder.exit).toBe('SIGKILL')
    expect(holder.lastWords).toHaveLength(1)
  })

  test('when those who are told of the loss keep its loop busy', async () => {
    const holder = await stage.holder()
    await holder.hold('told', { lingers: long })
    holder.stop()
    await (await stage.next('told')).release()
    holder.cont()
    expect(await holder.message('lost')).toMatchObject({ key: 'told' })
    expect(await holder.exit).toBe('SIGKILL')
  })

  test('by the shorter of two ttls, once something is held for that', async () => {
    const holder = await stage.holder()
    await holder.hold('short')
    await holder.hold('long', { options: { ttl: '30s' } })
    await holder.release('short')
    expect(await holder.block(2 * ttl)).toMatchObject({ states: { short: 'released', long: 'held' } })
    await holder.hold('short')
    holder.send('block', { ms: long })
    expect(await holder.exit).toBe('SIGKILL')
  })

  test('by whichever client it concerns', async () => {
    const holder = await stage.holder({ ttl: 30_000 })
    await holder.client('unwatched', { watchdog: false, ttl })
    await holder.client('watched', { watchdog: true, ttl })
    await holder.hold('one')
    await holder.hold('two', { client: 'unwatched' })
    expect(await holder.block(2 * ttl)).toMatchObject({ states: { one: 'held', two: 'lost' } })
    await holder.hold('three', { client: 'watched' })
    holder.send('block', { ms: long })
    expect(await holder.exit).toBe('SIGKILL')
  })

  // Its namespace ends with it; to signals from inside it is deaf, to SIGKILL as well.
  test.runIf(canBeFirst)('also as the first process of a container', async () => {
    const { said, closed } = startFirst(new URL('./first.mjs', import.meta.url), [stage.options()])
    await until(() => said.length > 0)
    const [code, signal] = await closed
    expect(signal ?? code).not.toBe(0)
  })
})

test('it does not keep a process alive', async () => {
  await using leaver = new Child(new URL('./leaver.mjs', import.meta.url), { args: [stage.options()] })
  expect(await leaver.message('held')).toMatchObject({ state: 'held' })
  expect(await leaver.exit).toBe(0)
  expect(leaver.log).toEqual([])
})
