import { describe, expect, test } from 'vitest'
import { BadOptionError, ClosedError, NotMigratedError, UnreachableError } from '../../src/index.ts'
import { Stage } from '../session/stage.ts'
import { startProxy } from '../support/proxy.ts'
import { twist } from '../support/twist.ts'
import { until } from '../support/until.ts'

const stage = new Stage()

describe('health', () => {
  test('of a client that has done nothing yet', async () => {
    const health = await stage.client().health()
    expect(health).toMatchObject({ reached: true, error: null, lastHeartbeat: null, trustLeft: null })
    expect(health.connections).toBeGreaterThanOrEqual(1)
  })

  test('of a life of the server in which commits may be gone: until when newcomers rest', async () => {
    const client = stage.client()
    await (await client.acquire('k')).release()
    expect((await client.health()).incarnation?.quarantinedUntil).toBeNull()
    await stage.sql('update $schema.cluster set timeline = timeline - 1')
    expect(await client.tryAcquire('k')).toBeNull()
    const [row] = await stage.sql('select quarantined_until as until from $schema.cluster')
    expect((await client.health()).incarnation?.quarantinedUntil).toEqual(row?.until)
    await stage.sql('update $schema.cluster set quarantined_until = null')
    expect((await client.health()).incarnation?.quarantinedUntil).toBeNull()
  })

  test('over a query function, whose rows are objects: which life of the server', async () => {
    const pool = stage.db.pool()
    const query = (text: string, values?: unknown[]) => pool.query(text, values)
    const client = stage.client({ pool: { query } })
    await (await client.acquire('k')).release()
    const [known] = await stage.sql('select boot::text, since from $schema.cluster')
    expect((await client.health()).incarnation).toEqual({ ...known, quarantinedUntil: null })
  })

  test('of one that holds a lock: which life of the server, how it is woken, how long it is trusted', async () => {
    const client = stage.client({ ttl: '20s' })
    await (await client.acquire('warm')).release()
    const lock = await client.acquire('k')
    const begin = Date.now()
    await lock.renew()
    const wanted = twist.notified ? 'listening' : 'polling'
    await until(async () => (await client.health()).waking === wanted)
    const health = await client.health()
    const [known] = await stage.sql('select boot::text, since from $schema.cluster')
    expect(health).toMatchObject({ reached: true, error: null, incarnation: known })
    expect(health.lastHeartbeat?.getTime()).toBeGreaterThanOrEqual(begin - 1)
    expect(health.lastHeartbeat?.getTime()).toBeLessThanOrEqual(Date.now())
    expect(health.trustLeft).toBeGreaterThan(10_000)
    expect(health.trustLeft).toBeLessThanOrEqual(19_000)
    await until(async () => (await client.health()).connections === 3)
    await lock.release()
  })

  test('of one whose database does not answer, or is not there: within the time, and says why', async () => {
    const proxy = await startProxy(stage.db.url)
    const client = stage.client({ pool: proxy.url(stage.db.url), ttl: '2s' })
    const lock = await client.acquire('k')
    proxy.blackHole()
    const begin = performance.now()
    const health = await client.health({ timeout: 300 })
    expect(performance.now() - begin).toBeLessThan(1_500)
    expect(health).toMatchObject({ reached: false, incarnation: null })
    expect(health.error).toBeInstanceOf(UnreachableError)
    await until(() => lock.state === 'lost')
    expect(await client.health({ timeout: 100 })).toMatchObject({ reached: false, trustLeft: null })
    proxy.release()
    await until(async () => (await client.health()).reached)
    await until(async () => (await stage.sql('select from $schema.sessions')).length === 0)
    await client.close({ timeout: 0 })
    await proxy.close()
  })

  test('of one without a schema, and of one that is closed', async () => {
    const client = stage.client({ schema: 'elsewhere' })
    expect((await client.health()).error).toBeInstanceOf(NotMigratedError)
    await client.close()
    const health = await client.health()
    expect(health).toMatchObject({ reached: false, connections: 0 })
    expect(health.error).toBeInstanceOf(ClosedError)
    await expect(client.health({ timeout: 0 })).rejects.toBeInstanceOf(BadOptionError)
  })

  test('of one that only has a query function', async () => {
    const pool = stage.db.pool({ max: 2 })
    const query = (text: string, values?: unknown[]) => pool.query(text, values)
    const client = stage.client({ pool: { query } })
    const lock = await client.acquire('k')
    expect(await client.health()).toMatchObject({ reached: true, waking: 'polling', connections: 0 })
    await lock.release()
  })
})
