// A guard that meets a row whose next holder has it, and keeps it, on a version from before the hand-over, where the
// row's history is one that lets FOR KEY SHARE pass as long as a hand-over is no key update (docs/protocol.md, Tables).
// With a plain index by session and token, 30 of these 48 guards pass.
import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type Guard, type Lock, LostError } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { Setting } from './support/setting.ts'

let setting: Setting
let schema: string
beforeAll(async () => {
  setting = await Setting.create()
  schema = `"${setting.db.schema.replaceAll('"', '""')}"`
})
afterEach(() => setting.clear())
afterAll(() => setting.db.drop())

const levels = ['read committed', 'repeatable read', 'serializable']

/** What happens before, and between, the two steps of who takes a key away: the row locked, then changed. */
interface History {
  before?(lock: Lock): Promise<pg.PoolClient>
  between?(taker: pg.PoolClient, lock: Lock, other: pg.PoolClient | undefined): Promise<unknown>
}

const pinned = async ({ key, token }: Lock): Promise<pg.PoolClient> => {
  const other = await setting.begun()
  await other.query(`select ${schema}.assert_held($1, $2)`, [key, token])
  return other
}

const histories: Record<string, History> = {
  'nobody else was there': {},
  'another guard came between the two steps, and ended': {
    between: async (_, lock) => (await pinned(lock)).query('commit'),
  },
  'another guard was there, and ended between the two steps': {
    before: pinned,
    between: async (_, __, other) => await other?.query('commit'),
  },
  'a savepoint lay between the two steps': {
    between: async taker => await taker.query('savepoint between'),
  },
}

interface Scene {
  readonly level: string
  readonly history: History
  readonly inSavepoint: boolean
  /** The guard's statement begins before the hand-over is committed, and waits for it. */
  readonly meanwhile: boolean
}

/**
 * A guard under a token that is handed on, in a transaction that is older than the row's present version: in one
 * transaction somebody queues and takes the key, as who meets an expired holder does.
 */
async function play({ level, history, inSavepoint, meanwhile }: Scene) {
  const key = setting.key()
  const lock = await setting.fencepost().acquire(key)
  const [row] = await setting.db.query<{ session: string }>(
    `select session from ${schema}.locks where key = $1`,
    [key],
  )
  const next = await setting.session()
  const trx = await setting.begun(`begin isolation level ${level}`)
  const { rows } = await trx.query('select pg_backend_pid() as pid, count(*) from notes')
  if (inSavepoint) await trx.query('savepoint s')

  const other = await history.before?.(lock)
  const taker = await setting.begun()
  const call = async (text: string, values: unknown[]) =>
    (await taker.query(`select outcome from ${schema}.${text}`, values)).rows.map(({ outcome }) => outcome)
  expect(await call('acquire($1, 1, $2, $3)', [next, [key], [randomUUID()]])).toEqual(['queued'])
  await history.between?.(taker, lock, other)
  const taken = await call('release($1, $2, $3)', [row?.session, [key], [lock.token]])
  expect(taken).toEqual(['released', 'handed'])

  const guarded = (): Promise<Guard | Error> => lock.guard(trx).catch((error: Error) => error)
  let outcome: Promise<Guard | Error> | undefined
  if (meanwhile) {
    outcome = guarded()
    const waits = 'select from pg_locks where pid = $1 and not granted'
    await until(async () => (await setting.db.query(waits, [rows[0].pid])).length > 0)
  }
  await taker.query('commit')
  return { key, lock, next, trx, outcome: await (outcome ?? guarded()) }
}

describe.each(levels)('at %s', level => {
  describe.each(Object.entries(histories))('%s', (_, history) => {
    test.each([
      { meanwhile: true, inSavepoint: false },
      { meanwhile: true, inSavepoint: true },
      { meanwhile: false, inSavepoint: false },
      { meanwhile: false, inSavepoint: true },
    ])('refused; it came meanwhile: $meanwhile; in a savepoint: $inSavepoint', async scene => {
      const { key, lock, next, trx, outcome } = await play({ level, history, ...scene })
      expect(outcome).toBeInstanceOf(LostError)
      expect(lock.state).toBe('lost')
      const isUsable = level === 'read committed' || scene.inSavepoint
      if (scene.inSavepoint) await trx.query('rollback to s')
      if (isUsable) await trx.query('select 1')
      else await expect(trx.query('select 1')).rejects.toMatchObject({ code: '25P02' })
      await trx.query('rollback')

      // The row was there all the time, and the next one's guard stands on it.
      const rows = await setting.db.query<{ session: string; token: string }>(
        `select session, token from ${schema}.locks where key = $1`,
        [key],
      )
      expect(rows).toMatchObject([{ session: next }])
      await trx.query(`begin isolation level ${level}`)
      await trx.query(`select ${schema}.assert_held($1, $2)`, [key, rows[0]?.token])
      await trx.query('commit')
    })
  })
})
