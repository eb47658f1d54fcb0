// Whatever a key, a label, a reason or a name is made of, it is that text and nothing else.
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import type pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { BadKeyError, BadOptionError, Fencepost, type FencepostOptions, type Lock } from '../../src/index.ts'
import { listenUrl, ways } from '../conformance/ways.ts'
import { seed } from '../model/seed.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { expectNothingLeft } from '../support/leftovers.ts'
import { until } from '../support/until.ts'
import { Canary } from './support/canary.ts'
import { canonical, hostileJson, hostileKeys, hostileText, impossibleText } from './support/hostile-text.ts'
import { everyRow, inSchema } from './support/sql.ts'

let db: TestDatabase
let canary: Canary
beforeAll(async () => {
  db = await createDatabase()
  canary = await Canary.plant(db)
})
afterAll(async () => {
  await canary.uproot()
  await db.drop()
})

const clients: Fencepost[] = []
afterEach(async () => {
  await Promise.all(clients.splice(0).map(client => client.close({ timeout: 0 })))
  await expectNothingLeft(db.pool({ max: 1 }), db.schema)
  await canary.expectAlive()
})

const bounds = { seed, interruptAfterTimeLimit: 20_000 }

const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })

function open(options: FencepostOptions): Fencepost {
  const client = new Fencepost(options)
  clients.push(client)
  return client
}

describe.each(['a pool', 'a pool, without listening', 'a query function'] as const)('through %s', way => {
  const connection = (config?: pg.PoolConfig) => ways[way](db, config).options
  const client = (options: FencepostOptions = {}) => open({ ...connection(), ...options })

  test('keys, labels, metadata and reasons of a batch are kept as they are, and apart', async () => {
    const owner = 'somebody'
    const [holder, other] = [client({ owner }), client()]
    const asked = fc.tuple(
      hostileKeys,
      fc.array(fc.record({ label: optional(hostileText(200, 0)), metadata: optional(hostileJson) }), {
        minLength: 1,
      }),
      hostileText(1_000).filter(reason => reason.trim() !== ''),
    )
    const property = fc.asyncProperty(asked, async ([keys, details, reason]) => {
      const detailsOf = (index: number) => details[index % details.length] ?? {}
      const locks = await Promise.all(keys.map((key, index) => holder.acquire(key, detailsOf(index))))
      try {
        await kept(keys, locks, detailsOf)
        // Each is taken, and each is somebody's in particular.
        expect(await Promise.all(keys.map(key => other.tryAcquire(key)))).toEqual(keys.map(() => null))
        const waiting = keys.map(key => other.acquire(key))
        const leaving = new AbortController()
        const { signal } = leaving
        const left = Promise.allSettled(keys.map(key => holder.acquire(key, { signal })))
        await until(async () => (await other.query()).pending.length === 2 * keys.length)
        leaving.abort()
        expect((await left).map(({ status }) => status)).toEqual(keys.map(() => 'rejected'))
        const first = keys[0] as string
        await until(async () => (await other.query()).pending.length === keys.length)
        expect((await other.query()).pending.map(({ key }) => key)).toEqual(byBytes(keys))
        const forced = await other.forceRelease(first, { reason, token: locks[0]?.token, now: true })
        expect(forced).toMatchObject({ outcome: 'released', token: locks[0]?.token })
        expect(await event(forced.token)).toMatchObject({ key: first, reason, owner })
        const next = await waiting[0]
        expect(next?.token).toBeGreaterThan(locks[0]?.token as bigint)
        expect((await other.query()).held.map(({ key }) => key)).toEqual(byBytes(keys))
        await Promise.all(locks.map(lock => lock.release()))
        const granted = await Promise.all(waiting)
        expect(new Set(granted.map(({ token }) => token)).size).toBe(keys.length)
        await Promise.all(granted.map(lock => lock.release()))
      } finally {
        await Promise.all(locks.map(lock => lock.release()))
      }
      expect(await other.query()).toEqual({ held: [], pending: [] })
      await canary.expectAlive()
    })

    async function kept(
      keys: readonly string[],
      locks: readonly Lock[],
      detailsOf: (index: number) => { label?: string | undefined; metadata?: unknown },
    ): Promise<void> {
      const { held } = await other.query()
      expect(held.map(({ key }) => key)).toEqual(byBytes(keys))
      for (const [index, key] of keys.entries()) {
        const { label, metadata } = detailsOf(index)
        const [one, ...more] = (await other.query({ key })).held
        expect(more).toEqual([])
        expect(one).toMatchObject({ key, label: label ?? null, owner, token: locks[index]?.token })
        expect(canonical(one?.metadata)).toEqual(canonical(metadata ?? null))
        expect(locks[index]?.key).toBe(key)
      }
    }
    await fc.assert(property, { ...bounds, numRuns: 25 })
  }, 60_000)

  test('owners, namespaces and names of applications are kept as they are', async () => {
    const asked = fc.record({
      key: hostileText(300),
      namespace: optional(hostileText(200).map(text => text.replaceAll(':', ';'))),
      owner: optional(hostileText(200)),
      application: hostileText(300),
      byUrl: fc.boolean(),
    })
    const seer = client()
    const property = fc.asyncProperty(asked, async ({ key, namespace, owner, application, byUrl }) => {
      const url = new URL(listenUrl(db))
      url.searchParams.set('application_name', application)
      const named =
        way === 'a query function'
          ? {}
          : { pool: byUrl ? url.href : connection({ application_name: application }).pool }
      const spoken = { ...connection(), ...named, namespace, owner }
      const [one, two] = [
        new Fencepost(spoken),
        new Fencepost({ ...spoken, namespace: `${namespace ?? ''}'` }),
      ]
      try {
        const lock = await one.acquire(key)
        const full = namespace === undefined ? key : `${namespace}:${key}`
        const { held } = await seer.query()
        expect(held).toMatchObject([{ key: full, token: lock.token }])
        if (owner !== undefined) expect(held[0]?.owner).toBe(owner)
        if (way !== 'a query function') expect(held[0]?.application).toBe(application)
        expect((await one.query({ key })).held).toHaveLength(1)
        // Another namespace by one character is another key.
        const apart = await two.tryAcquire(key)
        expect(apart?.token).toBeGreaterThan(lock.token)
        await seer.forceRelease(full, { reason: 'why', now: true })
        expect((await seer.query()).held.map(each => each.token)).toEqual([apart?.token])
      } finally {
        await Promise.all([one.close({ timeout: 0 }), two.close({ timeout: 0 })])
      }
      await canary.expectAlive()
    })
    await fc.assert(property, { ...bounds, numRuns: 15 })
  }, 60_000)

  test('what the database cannot keep is refused by name, beside what it can', async () => {
    const good = client()
    await good.withLock('warm', () => {})
    const before = await everyRow(db)
    const property = fc.asyncProperty(impossibleText, hostileText(100), async (bad, fine) => {
      const beside = await good.acquire(fine)
      const badKey = [
        good.acquire(bad),
        good.tryAcquire(bad),
        good.withLock(bad, () => {}),
        good.query({ key: bad }),
        good.forceRelease(bad, { reason: 'why' }),
      ]
      const badOption = [
        good.acquire(fine, { label: bad }),
        good.tryAcquire(fine, { metadata: { [fine]: [bad] } }),
        good.tryAcquire(fine, { metadata: { [bad]: fine } }),
        good.forceRelease(fine, { reason: bad }),
        good.raiseBase({ reason: bad }),
      ]
      const outcomes = await Promise.all([badKey, badOption].map(each => Promise.allSettled(each)))
      for (const [index, refusal] of [BadKeyError, BadOptionError].entries()) {
        for (const outcome of outcomes[index] ?? []) {
          expect(outcome).toMatchObject({ status: 'rejected', reason: { constructor: refusal } })
        }
      }
      expect(await beside.release()).toBe('released')
      const { pool, schema } = connection()
      for (const options of [
        { owner: bad },
        { namespace: bad.replaceAll(':', ';') },
        { schema: bad.slice(0, 15) },
      ]) {
        if (!impossible(Object.values(options)[0])) continue
        expect(() => new Fencepost({ pool, schema, ...options }), JSON.stringify(options)).toThrow(
          BadOptionError,
        )
      }
      if (way !== 'a query function') {
        const named = connection({ application_name: bad }).pool
        expect(() => new Fencepost({ pool: named, schema })).toThrow(BadOptionError)
      }
    })
    await fc.assert(property, { ...bounds, numRuns: 25 })
    expect(JSON.parse(await everyRow(db))).toEqual(JSON.parse(before))
  }, 60_000)
})

async function event(
  token: bigint | null,
): Promise<{ key: string; reason: string; owner: string } | undefined> {
  const text = 'select key, reason, owner from $schema.events where token = $1'
  const rows = await db.query<{ key: string; reason: string; owner: string }>(inSchema(db, text), [
    String(token),
  ])
  expect(rows).toHaveLength(1)
  return rows[0]
}

const impossible = (text: string | undefined): boolean =>
  text !== undefined &&
  (text.includes('\0') || !(text as string & { isWellFormed(): boolean }).isWellFormed())

/** As the collation "C" has them. */
const byBytes = (keys: readonly string[]): string[] =>
  [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))

test('a name that is no text at all is refused', () => {
  const { pool } = ways['a pool'](db, undefined).options
  for (const schema of [5, null, {}, ['fencepost'], Symbol('s'), randomUUID] as never[]) {
    if (schema !== null) expect(() => new Fencepost({ pool, schema })).toThrow(BadOptionError)
    if (schema !== null) expect(() => new Fencepost({ pool, owner: schema })).toThrow(BadOptionError)
    if (schema !== null) expect(() => new Fencepost({ pool, namespace: schema })).toThrow(BadOptionError)
  }
})
