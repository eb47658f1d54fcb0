// The table of docs/sharing.md, every cell of it.
import { escapeIdentifier, type Pool } from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Fencepost, FencepostError, type Lock, LostError } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { clientOptions } from '../support/twist.ts'
import { until } from '../support/until.ts'
import { read, section, tableRows } from './documents.ts'

const [head = [], ...rows] = tableRows(section(read('docs/sharing.md'), 'The table'))
const columns = ['exclusive', 'shared', 'permits', 'several keys'] as const
type Column = (typeof columns)[number]

let db: TestDatabase
let pool: Pool
let fp: Fencepost
let key: string
let keys = 0
beforeAll(async () => {
  db = await createDatabase()
  pool = db.pool()
})
beforeEach(() => {
  fp = new Fencepost(clientOptions(db))
  key = `key ${keys++}`
})
afterEach(() => fp.close())
afterAll(() => db.drop())

const sharedly = { mode: 'shared' } as const
const both = () => [key, `${key}, the other`]
const semaphore = () => fp.semaphore(key, { permits: 3 })

/** Takes it as the column says. */
const take: Record<Column, (options?: object) => Promise<Lock>> = {
  exclusive: options => fp.acquire(key, options),
  shared: options => fp.acquire(key, { ...sharedly, ...options }),
  permits: options => semaphore().acquire(options),
  'several keys': options => fp.acquire(both(), options),
}

/** The same, around a section. */
const within: Record<Column, (options: object, run: (lock: Lock) => unknown) => Promise<unknown>> = {
  exclusive: (options, run) => fp.withLock(key, options, run),
  shared: (options, run) => fp.withLock(key, { ...sharedly, ...options }, run),
  permits: (options, run) => semaphore().withPermits(options, run),
  'several keys': (options, run) => fp.withLock(both(), options, run),
}

const fence = (resource: string, level: bigint) =>
  pool.query(`select ${escapeIdentifier(db.schema)}.fence($1, $2)`, [resource, level])

/** Pins it in a transaction of the test's own, and runs something meanwhile. */
async function guarded(lock: Lock, run: () => unknown): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    await lock.guard(client)
    await run()
    await client.query('commit')
  } finally {
    client.release(true)
  }
}

/** Tries what a row is about; throws what refuses it. In the order of the rows. */
const tries: readonly ((column: Column) => Promise<unknown>)[] = [
  async column => {
    const lock = await take[column]()
    const byTransaction = await outcomeOf(lock.transaction(() => {}))
    expect(await outcomeOf(guarded(lock, () => {}))).toBe(byTransaction)
    await lock.transaction(async () => {
      const forced = await fp.forceRelease(key, { reason: 'pinned?', token: lock.token, now: true })
      expect(forced.outcome).toBe('pinned')
    })
  },
  async column => {
    const lock = await take[column]()
    await fence(key, lock.level)
  },
  async column => {
    const lock = await take[column]()
    await lock.downgrade()
    expect(lock.mode).toBe('shared')
    await (await fp.tryAcquire(key, sharedly))?.release()
  },
  column =>
    within[column]({}, async outer => {
      await within[column]({ reentrant: true }, inner => expect(inner).toBe(outer))
      expect(outer.state).toBe('held')
    }),
  async column => {
    if (column === 'permits') await (await take.permits()).release()
    const options = column === 'shared' ? sharedly : {}
    const lock = await fp.acquire([...both(), `${key}, a third`], { timeout: '5s', ...options })
    expect([...lock.tokens.keys()]).toHaveLength(3)
  },
  async column => {
    const lock = await take[column]({ lockDelay: '4s' })
    const resting = [...lock.tokens.keys()]
    for (const one of resting) await fp.forceRelease(one, { reason: 'lost', now: true })
    for (const one of resting) expect(await fp.tryAcquire(one)).toBeNull()
    for (const one of resting) await (await fp.acquire(one)).release()
  },
]

async function outcomeOf(trying: Promise<unknown>): Promise<string> {
  try {
    await trying
    return 'yes'
  } catch (error) {
    if (error instanceof FencepostError) return error.code
    throw error
  }
}

/** What a cell says: `yes`, or the code of the error. */
const saidBy = (cell = ''): string | undefined => /^(yes)\b/.exec(cell)?.[1] ?? /^`(\w+)`: ./.exec(cell)?.[1]

test('the table has a column for each mode, and a row for each try', () => {
  expect(head.slice(1)).toEqual(columns)
  expect(rows).toHaveLength(tries.length)
})

describe.each(rows.map((row, i) => [row[0] as string, i] as const))('%s', (_, i) => {
  test.each(columns.map((column, j) => [column, rows[i]?.[j + 1]] as const))(
    '%s: %s',
    async (column, cell) => {
      expect(await outcomeOf(tries[i]?.(column) as Promise<unknown>)).toBe(saidBy(cell))
    },
  )
})

describe('what the cells say besides', () => {
  test('under a guard of a reader, readers come and go and a writer waits', async () => {
    const reader = await take.shared()
    await guarded(reader, async () => {
      expect(await fp.forceRelease(key, { reason: 'x', now: true })).toMatchObject({ outcome: 'pinned' })
      await (await fp.acquire(key, sharedly)).release()
      expect(await fp.tryAcquire(key)).toBeNull()
    })
    await (await fp.acquire(key)).release()
  })

  test('under a guard of permits, they go to nobody else', async () => {
    const permits = await take.permits({ permits: 2 })
    await guarded(permits, async () => {
      expect(await fp.forceRelease(key, { reason: 'x', now: true })).toMatchObject({ outcome: 'pinned' })
      expect(await semaphore().tryAcquire({ permits: 2 })).toBeNull()
      await (await semaphore().acquire()).release()
    })
    await (await semaphore().acquire({ permits: 3 })).release()
  })

  test('readers between two writers have one level, and the next writer keeps those from before out', async () => {
    const [one, other] = [await take.shared(), await take.shared()]
    expect(one.level).toBe(other.level)
    expect(one.token).not.toBe(other.token)
    const late = one.level
    await fence(key, one.level)
    await fence(key, other.level)
    for (const lock of [one, other]) await lock.release()
    const writer = await take.exclusive()
    expect(writer.level).toBe(writer.token)
    await fence(key, writer.level)
    await writer.release()
    await fence(key, (await take.shared()).level)
    await expect(fence(key, late)).rejects.toMatchObject({ code: 'FP002' })
  })

  test('holders of permits have one level for ever: a fence refuses none of them', async () => {
    const first = await take.permits()
    const { level, token } = first
    await first.release()
    await semaphore().resize(3)
    const next = await take.permits()
    expect(next.token).toBeGreaterThan(token)
    expect(next.level).toBe(level)
    await fence(key, next.level)
    await fence(key, level)
  })

  test('several keys: each is fenced and asserted by its own token', async () => {
    const lock = await take['several keys']()
    for (const [one, token] of lock.tokens) {
      await fence(one, token)
      await pool.query(`select ${escapeIdentifier(db.schema)}.assert_held($1, $2)`, [one, token])
    }
    expect(() => lock.token).toThrow('tokens')
  })

  test('several keys: one that is lost takes the others along', async () => {
    fp = new Fencepost({ ...clientOptions(db), ttl: '2s' })
    const lock = await take['several keys']()
    const [first = '', second = ''] = both()
    await fp.forceRelease(first, { reason: 'x' })
    await until(() => lock.state === 'lost')
    expect(lock.signal.reason).toBeInstanceOf(LostError)
    await (await fp.acquire(second, { timeout: '5s' })).release()
  })

  test('inside a shared section the exclusive lock is refused, and the other way round', async () => {
    const refused = { code: 'already_held' }
    await within.shared({}, async () => {
      await expect(within.exclusive({ reentrant: true }, () => {})).rejects.toMatchObject(refused)
    })
    await within.exclusive({}, async () => {
      await expect(within.shared({ reentrant: true }, () => {})).rejects.toMatchObject(refused)
      // By hand as well, and siblings do exclude each other.
      await expect(take.exclusive()).rejects.toMatchObject(refused)
    })
  })
})
