// The verbs with which people look, and take a key by hand.
import { escapeIdentifier } from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import { freePort } from '../../src/testing/port.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { clientOptions } from '../support/twist.ts'
import { until } from '../support/until.ts'
import { fencepost, type Ran } from './fencepost.ts'

let db: TestDatabase
let holder: Fencepost
let waiter: Fencepost
beforeAll(async () => {
  db = await createDatabase()
})
afterAll(() => db.drop())
beforeEach(() => {
  holder = new Fencepost({ ...clientOptions(db), owner: 'holder', ttl: '2s' })
  waiter = new Fencepost({ ...clientOptions(db), owner: 'waiter' })
})
afterEach(() => Promise.all([holder.close(), waiter.close()]))

const run = (...args: string[]): Promise<Ran> =>
  fencepost([...args, '--schema', db.schema], { DATABASE_URL: db.twistedUrl })

async function json(...args: string[]) {
  const ran = await run(...args, '--json')
  expect(ran.errors).toBe('')
  expect(ran.out.trimEnd().split('\n')).toHaveLength(1)
  return { code: ran.code, ...JSON.parse(ran.out) }
}

/** One holds the key, one waits for it. */
async function queue(key: string) {
  const lock = await holder.acquire(key, { label: 'month end', metadata: { run: 7 } })
  const waiting = waiter.acquire(key)
  waiting.catch(() => {})
  await until(async () => (await holder.query({ key })).pending.length === 1)
  return { lock, token: String(lock.token), waiting }
}

describe('status', () => {
  test('of nothing', async () => {
    expect(await run('status')).toEqual({ code: 0, out: 'nothing is held\n', errors: '' })
    expect(await json('status')).toEqual({ code: 0, schema: db.schema, held: [], pending: [] })
  })

  test('who holds, and who waits for it', async () => {
    const { token } = await queue('invoice:42')
    const { code, out, errors } = await run('status')
    expect({ code, errors }).toEqual({ code: 0, errors: '' })
    const [held, pending] = out.split('\n\n').map(part => part.trimEnd().split('\n'))
    expect(held?.[0]).toMatch(/^KEY +MODE +STATE +TOKEN +HOLDER .* WAITING$/)
    expect(held?.[1]).toMatch(
      new RegExp(`^invoice:42 +exclusive +held +${token} +holder \\(.+:${process.pid}\\) .* month end .* 1$`),
    )
    expect(pending?.[0]).toMatch(/^KEY +PLACE +MODE +WAITER .* HELD BY$/)
    expect(pending?.[1]).toMatch(/^invoice:42 +1 +exclusive +waiter \(.* holder \(.*\)$/)
    expect([held?.length, pending?.length]).toEqual([2, 2])
  })

  test('--json: tokens are text', async () => {
    const { token } = await queue('k')
    const { held, pending } = await json('status')
    expect(held).toEqual([
      expect.objectContaining({
        key: 'k',
        token,
        owner: 'holder',
        pid: process.pid,
        state: 'held',
        waiting: 1,
      }),
    ])
    expect(pending).toEqual([
      expect.objectContaining({
        key: 'k',
        place: 1,
        owner: 'waiter',
        blockedBy: [expect.objectContaining({ owner: 'holder', token })],
      }),
    ])
  })

  test('a key cannot write to the terminal', async () => {
    await holder.acquire('a\u001b[2Jb\n\u202ec')
    const { out } = await run('status')
    expect(out).toContain('a\\u{1b}[2Jb\\u{a}\\u{202e}c')
    expect(out.trimEnd().split('\n')).toHaveLength(2)
  })
})

describe('inspect', () => {
  test('a key that is held, and its line', async () => {
    const { token } = await queue('k')
    const { code, out, errors } = await run('inspect', 'k')
    expect({ code, errors }).toEqual({ code: 0, errors: '' })
    for (const line of [
      /^key +k$/m,
      /^state +held$/m,
      /^label +month end$/m,
      /^metadata +\{"run":7\}$/m,
      /^k +1 +exclusive +waiter/m,
    ])
      expect(out).toMatch(line)
    expect(out).toMatch(new RegExp(`^token +${token}$`, 'm'))
    expect(await json('inspect', 'k')).toMatchObject({
      code: 0,
      key: 'k',
      held: [{ token }],
      pending: [{ place: 1 }],
    })
  })

  test('a key that nobody holds', async () => {
    await holder.acquire('other')
    expect(await run('inspect', 'k')).toEqual({ code: 0, out: 'nobody holds k\n', errors: '' })
    expect(await json('inspect', 'k')).toMatchObject({ code: 0, key: 'k', held: [], pending: [] })
  })
})

describe('a key that several hold', () => {
  test('status and inspect show each of them, the mode, and how many permits', async () => {
    const semaphore = holder.semaphore('pool', { permits: 5 })
    const [two, one] = [await semaphore.acquire({ permits: 2 }), await semaphore.acquire()]
    await holder.acquire('page', { mode: 'shared' })
    const waiting = waiter.semaphore('pool', { permits: 5 }).acquire({ permits: 4 })
    waiting.catch(() => {})
    await until(async () => (await holder.query({ key: 'pool' })).pending.length === 1)
    const { out } = await run('status')
    expect(out).toMatch(/^page +shared +held /m)
    expect(out).toMatch(new RegExp(`^pool +2 of 5 +held +${two.token} `, 'm'))
    expect(out).toMatch(new RegExp(`^pool +1 of 5 +held +${one.token} `, 'm'))
    expect(out).toMatch(/^pool +1 +4 of 5 +waiter \(.* holder \(.*\) and 1 more$/m)
    const inspected = await run('inspect', 'pool')
    expect(inspected.out).toMatch(new RegExp(`^pool +1 of 5 +held +${one.token} `, 'm'))
    expect(await json('inspect', 'pool')).toMatchObject({
      held: [{ mode: 'permits', permits: 2, capacity: 5 }, { permits: 1 }],
      pending: [{ mode: 'permits', permits: 4, blockedBy: [{ permits: 2 }, { permits: 1 }] }],
    })
    expect((await run('inspect', 'page')).out).toMatch(/^mode +shared$/m)
  })
})

describe('release', () => {
  test('the holder is told, and the next in line has it; who and why is kept', async () => {
    const { lock, token, waiting } = await queue('k')
    const ran = await run('release', 'k', '--reason', 'stuck since Monday')
    expect(ran).toMatchObject({ code: 0, errors: '' })
    expect(ran.out).toMatch(
      new RegExp(`^k, held under token ${token}, moves on when its holder knows, within [\\d.]+m?s\\n$`),
    )
    expect((await waiting).token).toBeGreaterThan(BigInt(token))
    expect(lock.lossReason).toBe('forced')
    const events = `${escapeIdentifier(db.schema)}.events`
    expect(await db.query(`select what, reason from ${events} where token = $1`, [token])).toEqual([
      { what: 'forced', reason: 'stuck since Monday' },
    ])
  })

  test('--now does not wait; --token names the grant', async () => {
    const { token, waiting } = await queue('k')
    const other = await json('release', 'k', '--reason', 'x', '--now', '--token', '12')
    expect(other).toMatchObject({ code: 1, outcome: 'absent' })
    expect((await holder.query({ key: 'k' })).held[0]?.state).toBe('held')
    const taken = await json('release', 'k', '--reason', 'x', '--now', '--token', token)
    expect(taken).toMatchObject({ code: 0, key: 'k', outcome: 'released', token })
    expect((await waiting).token).toBeGreaterThan(BigInt(token))
  })

  test('a key that nobody holds is 1', async () => {
    const ran = await run('release', 'k', '--reason', 'x')
    expect(ran).toMatchObject({ code: 1, errors: '' })
    expect(ran.out).toContain('nobody holds k')
  })

  test('a role that is no operator is 78, and nothing happens', async () => {
    const role = `${db.name}_app`
    await db.query(`create role ${role} login password 'app'`)
    const granted = await fencepost(['migrate', '--schema', db.schema, '--grant', role], {
      DATABASE_URL: db.url,
    })
    expect(granted.code).toBe(0)
    const { token } = await queue('k')
    const url = new URL(db.url)
    Object.assign(url, { username: role, password: 'app' })
    const ran = await fencepost(['release', 'k', '--reason', 'x', '--schema', db.schema], {
      DATABASE_URL: url.href,
    })
    expect(ran).toMatchObject({ code: 78, out: '' })
    expect(ran.errors).toContain('--grant-operator')
    expect(await json('inspect', 'k')).toMatchObject({ held: [{ token, state: 'held' }] })
  })
})

describe('base', () => {
  test('shows it, and raises it above every token', async () => {
    const lock = await holder.acquire('k')
    const { base } = await json('base')
    expect(BigInt(base)).toBeLessThan(lock.token)
    expect(await run('base')).toEqual({ code: 0, out: `token base ${base}\n`, errors: '' })
    const raised = await json('base', '--raise', '--reason', 'restored')
    expect(raised).toMatchObject({ code: 0, raised: true })
    expect(BigInt(raised.base)).toBeGreaterThan(lock.token)
    expect(await json('base')).toMatchObject({ base: raised.base, raised: false })
  })
})

describe('health', () => {
  test('0 when a primary with the schema answers', async () => {
    await holder.acquire('k')
    expect(await json('health')).toMatchObject({
      code: 0,
      reached: true,
      error: null,
      incarnation: { boot: expect.any(String) },
    })
    const ran = await run('health')
    expect(ran).toMatchObject({ code: 0, errors: '' })
    expect(ran.out).toMatch(/^reached +yes$/m)
  })

  test('69 when nobody answers', async () => {
    const url = `postgres://user:secret@127.0.0.1:${await freePort()}/x`
    const ran = await fencepost(['health', '--json', '--url', url])
    expect(ran).toMatchObject({ code: 69, errors: '' })
    expect(JSON.parse(ran.out)).toMatchObject({
      reached: false,
      error: { code: 'unreachable' },
      incarnation: null,
    })
    const people = await fencepost(['health', '--url', url])
    expect(people).toMatchObject({ code: 69, errors: '' })
    expect(people.out).toMatch(/^reached +no$/m)
    expect(ran.out + people.out).not.toContain('secret')
  })

  test('78 without the schema', async () => {
    const ran = await fencepost(['health', '--schema', 'elsewhere', '--json'], { DATABASE_URL: db.url })
    expect(ran.code).toBe(78)
    expect(JSON.parse(ran.out)).toMatchObject({ reached: false, error: { code: 'not_migrated' } })
  })
})
