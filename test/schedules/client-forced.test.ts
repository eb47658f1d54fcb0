// A key that is taken by hand, as its holder sees it: told before the next one holds, whatever is lost on the way.
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { BadOptionError, type Fencepost, type Lock, LostError, NotPermittedError } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { Clients } from './support/clients.ts'
import { Stage } from './support/stage.ts'
import { type Watched, watched } from './support/watched.ts'

const ttl = 1_500
const reason = 'it is stuck'
let stage: Stage
let clients: Clients
let operator: Fencepost
let key: string

beforeAll(async () => {
  stage = await Stage.create()
  clients = new Clients(stage)
})
beforeEach(() => {
  key = stage.key()
  operator = clients.direct({ owner: 'on duty' })
})
afterEach(() => clients.end())
afterAll(() => stage.drop())

/** One of another client in line, and what both handles say at the moment at which it is granted. */
async function behind(lock: Lock): Promise<{ next: Watched<Lock>; both: string[] }> {
  const next = watched(clients.direct().acquire(key))
  const both: string[] = []
  next.promise.then(
    other => both.push(lock.state, other.state),
    () => {},
  )
  await until(async () => (await stage.line(key)).length === 1)
  return { next, both }
}

/** The key's row, and the session's expiry and the mark's in milliseconds from now. */
async function ends(): Promise<{ session: number; mark: number }> {
  const [row] = await stage.sql(
    `select (extract(epoch from s.expires_at - clock_timestamp()) * 1000)::float8 as session,
            (extract(epoch from l.forced_until - clock_timestamp()) * 1000)::float8 as mark
       from $schema.sessions s join $schema.locks l on l.session = s.id where l.key = $1`,
    [key],
  )
  return row as { session: number; mark: number }
}

test('the holder is told, gives it back, and keeps what else it holds', async () => {
  const fp = clients.direct({ ttl: '9s' })
  const [lock, other] = await Promise.all([fp.acquire(key), fp.acquire(stage.key('other'))])
  const aborted = new Promise<unknown>(resolve => {
    lock.signal.addEventListener('abort', () => resolve(lock.signal.reason))
  })
  const { token } = lock
  const { next, both } = await behind(lock)
  const forced = await operator.forceRelease(key, { reason, token })
  expect(forced).toEqual({ outcome: 'forced', token, movesWithin: expect.any(Number) })
  expect(forced.movesWithin).toBeGreaterThan(3_000)
  expect(forced.movesWithin).toBeLessThanOrEqual(9_000)
  expect(await operator.query({ key })).toMatchObject({ held: [{ token, state: 'forced' }], pending: [{}] })
  expect(lock.state).toBe('held')
  await expect(lock.renew()).rejects.toMatchObject({ code: 'lost', reason: 'forced' })
  expect([lock.state, lock.lossReason, lock.remaining]).toEqual(['lost', 'forced', 0])
  expect(await aborted).toBeInstanceOf(LostError)
  expect(await aborted).toMatchObject({ reason: 'forced', key })
  const second = await next.promise
  expect(both).toEqual(['lost', 'held'])
  expect(await lock.release()).toBe('forced')
  expect(second.token).toBeGreaterThan(token)
  expect(other.state).toBe('held')
  // The same process again, as anybody.
  const third = fp.acquire(key)
  await second.release()
  expect((await third).state).toBe('held')
  await fp.acquire(stage.key('new'))
  const [event] = await stage.sql(
    'select what, by, reason, key, token, owner from $schema.events where key = $1',
    [key],
  )
  expect(event).toMatchObject({ what: 'forced', by: 'on duty', reason, key, token: String(token) })
})

test('at the next heartbeat, without anybody’s asking; a section under it is told', async () => {
  const fp = clients.direct({ ttl })
  const inside = watched(
    fp.withLock(key, async lock => {
      await new Promise(resolve => lock.signal.addEventListener('abort', resolve))
    }),
  )
  await until(() => stage.lock(key))
  await operator.forceRelease(key, { reason })
  await until(() => inside.state === 'failed')
  expect(inside.error).toMatchObject({ code: 'lost', reason: 'forced' })
  await until(async () => (await stage.lock(key)) === undefined)
})

describe.each(['toClient', 'toServer', undefined] as const)('the holder cut off, %s', direction => {
  test('it stops believing before the next one holds, and the line does not wait any longer than for its ttl', async () => {
    const { fp, proxy } = await clients.proxied({ ttl })
    await clients.ready(fp)
    const lock = await fp.acquire(key)
    const { next, both } = await behind(lock)
    proxy.blackHole(direction)
    expect(await operator.forceRelease(key, { reason })).toMatchObject({ outcome: 'forced' })
    const second = await next.promise
    expect(both).toEqual(['lost', 'held'])
    await second.release()
  })
})

test('a renewal whose answer is lost, so that the session outlives the mark: it is not held beyond the mark', async () => {
  const { fp, proxy } = await clients.proxied({ ttl: 3_000 })
  await clients.ready(fp)
  const lock = await fp.acquire(key)
  const { next, both } = await behind(lock)
  await operator.forceRelease(key, { reason })
  proxy.hold('toClient')
  // A renewal has come, and its answer has not: the row lives longer than the mark lets the grant.
  await until(async () => {
    const { session, mark } = await ends()
    return session > mark + 100
  })
  expect(lock.state).not.toBe('lost')
  const second = await next.promise
  expect(both).toEqual(['lost', 'held'])
  await second.release()
})

test('the answer that grants it comes after the one that says it was taken: never held, and given back', async () => {
  const { fp, proxy } = await clients.proxied({ ttl: 3_000, listen: { connectionString: stage.db.url } })
  await (await fp.acquire('warm')).release()
  await until(async () => {
    const beat = `select from pg_stat_activity where application_name = 'fencepost beat' and datname = current_database()`
    return (await stage.sql(beat)).length === 1
  })
  proxy.hold('toClient')
  const asked = watched(fp.acquire(key))
  await until(() => stage.lock(key))
  await operator.forceRelease(key, { reason })
  // A heartbeat by the other road tells of the mark; the second one is not sent before the first is answered.
  await until(async () => (await ends()).session > (await ends()).mark + 1_200)
  expect(asked.state).toBe('open')
  proxy.release()
  await expect(asked.promise).rejects.toMatchObject({ code: 'lost', reason: 'forced', key })
  await until(async () => (await stage.lock(key)) === undefined)
})

describe('a guarded transaction', () => {
  test('that is open goes on to its commit, and the key waits for it; the next one is refused', async () => {
    const fp = clients.direct({ ttl: '6s' })
    const lock = await fp.acquire(key)
    const { next } = await behind(lock)
    await stage.sql('create table if not exists written (what text)')
    await lock.transaction(async client => {
      await operator.forceRelease(key, { reason })
      await expect(lock.renew()).rejects.toMatchObject({ reason: 'forced' })
      await until(async () => (await stage.lock(key))?.released)
      expect(next.state).toBe('open')
      await client.query(`insert into written values ('under the guard')`)
    })
    expect(await stage.sql('select what from written')).toEqual([{ what: 'under the guard' }])
    await expect(lock.transaction(() => {})).rejects.toMatchObject({ code: 'lost', reason: 'forced' })
    await (await next.promise).release()
  })

  test('that begins before the holder was told is refused, and says why', async () => {
    const fp = clients.direct({ ttl: '9s' })
    const lock = await fp.acquire(key)
    await operator.forceRelease(key, { reason })
    const begun = lock.transaction(() => expect.fail('must not run'))
    await expect(begun).rejects.toMatchObject({ code: 'lost', reason: 'forced' })
    expect(lock.lossReason).toBe('forced')
  })
})

test('`now` hands over at once; the old holder hears of it at its next heartbeat, and its token is refused', async () => {
  const fp = clients.direct({ ttl: '9s' })
  const lock = await fp.acquire(key)
  const { token } = lock
  const { next } = await behind(lock)
  expect(await operator.forceRelease(key, { reason, now: true })).toEqual({
    outcome: 'released',
    token,
    movesWithin: null,
  })
  const second = await next.promise
  // What it risks.
  expect([lock.state, second.state]).toEqual(['held', 'held'])
  await stage.sql('select $schema.fence($1, $2)', [key, String(second.token)])
  await expect(stage.sql('select $schema.fence($1, $2)', [key, String(token)])).rejects.toMatchObject({
    code: 'FP002',
  })
  await expect(lock.renew()).rejects.toMatchObject({ reason: 'forced' })
  expect(second.state).toBe('held')
})

test('of nobody, of another token, without a reason', async () => {
  const lock = await clients.direct().acquire(key)
  const absent = { outcome: 'absent', token: null, movesWithin: null }
  expect(await operator.forceRelease(key, { reason, token: lock.token + 1n })).toEqual(absent)
  expect(await operator.forceRelease('nobody has it', { reason })).toEqual(absent)
  for (const bad of [{}, { reason: ' ' }, { reason: 5 }, { reason: 'a\0b' }, { reason, token: 5 }, null]) {
    await expect(operator.forceRelease(key, bad as never)).rejects.toBeInstanceOf(BadOptionError)
  }
  expect(lock.state).toBe('held')
})

test('a holder that only has a query function is told as well', async () => {
  const pool = stage.db.pool({ max: 2 })
  const query = (text: string, values?: unknown[]) => pool.query(text, values)
  const fp = clients.direct({ pool: { query }, ttl: '9s' })
  const [lock, other] = [await fp.acquire(key), await fp.acquire(stage.key('other'))]
  await operator.forceRelease(key, { reason })
  await expect(lock.renew()).rejects.toMatchObject({ reason: 'forced' })
  await until(async () => (await stage.lock(key)) === undefined)
  await operator.forceRelease(other.key, { reason, now: true })
  await expect(other.renew()).rejects.toMatchObject({ reason: 'forced' })
})

test('by way of a query function, at another isolation level than the queue’s', async () => {
  const lock = await clients.direct({ ttl: '9s' }).acquire(key)
  const pool = stage.db.pool({ max: 1, options: '-c default_transaction_isolation=serializable' })
  const query = (text: string, values?: unknown[]) => pool.query(text, values)
  const byHand = clients.direct({ pool: { query } })
  expect(await byHand.query({ key })).toMatchObject({ held: [{ token: lock.token }] })
  expect(await byHand.forceRelease(key, { reason, token: lock.token })).toMatchObject({ outcome: 'forced' })
  const before = (await byHand.tokenBase()) ?? 0n
  const raised = await byHand.raiseBase({ reason })
  expect(raised).toBeGreaterThanOrEqual(before + 2n ** 32n)
  expect(await operator.tokenBase()).toBe(raised)
})

test('the application’s role sees, and can neither force nor raise', async () => {
  const role = `${stage.db.name}_app`
  await stage.sql(`create role ${role} login password 'secret'`)
  stage.atEnd(async () => {
    await stage.sql(`drop owned by ${role}`)
    await stage.sql(`drop role ${role}`)
  })
  await stage.sql('select $schema.grant_application($1)', [role])
  const url = new URL(stage.db.url)
  Object.assign(url, { username: role, password: 'secret' })
  const app = clients.direct({ pool: new pg.Pool({ connectionString: url.href }) })
  const lock = await app.acquire(key)
  expect(await app.query({ key })).toMatchObject({ held: [{ token: lock.token, state: 'held' }] })
  for (const refused of [
    app.forceRelease(key, { reason, now: true }),
    app.raiseBase({ reason }),
    app.forceRelease('another', { reason }),
  ]) {
    await expect(refused).rejects.toBeInstanceOf(NotPermittedError)
    await expect(refused).rejects.toThrow('--grant-operator')
  }
  expect(lock.state).toBe('held')
  expect(await app.tokenBase()).toBeGreaterThan(0n)
  await stage.sql(`revoke execute on function $schema.query from ${role}`)
  await expect(app.query()).rejects.toBeInstanceOf(NotPermittedError)
  await expect(app.query()).rejects.toThrow('--grant ROLE')
  await app.close()
})
