// A pin on a snapshot from before the hand-over, where the row's history is the one that once let stale guards pass:
// flagged by who queued, pinned by another guard meanwhile (a multixact), then handed over.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type Lock, LostError } from '../../src/index.ts'
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

/** Moves the key on to the next in line, with another guard open over the change of its flags. */
async function moveOn(key: string, lock: Lock): Promise<Lock> {
  const other = await setting.begun()
  await other.query(`select ${schema}.assert_held($1, $2)`, [key, lock.token])
  const next = setting.fencepost({ poll: 20 }).acquire(key)
  await until(async () => {
    const rows = await setting.db.query<{ contended: boolean }>(`select contended from ${schema}.locks`)
    return rows[0]?.contended
  })
  await setting.db.query(
    `update ${schema}.sessions set expires_at = clock_timestamp() - interval '1 second'
      where id = (select session from ${schema}.locks where key = $1)`,
    [key],
  )
  await until(async () => {
    const rows = await setting.db.query<{ released: boolean }>(`select released from ${schema}.locks`)
    return rows[0]?.released
  })
  await other.query('commit')
  return await next
}

describe.each(levels)('at %s', level => {
  test.each([false, true])('a guard on an old snapshot is refused; in a savepoint: %s', async inSavepoint => {
    const key = setting.key()
    const lock = await setting.fencepost().acquire(key)
    const trx = await setting.begun(`begin isolation level ${level}`)
    await trx.query('select count(*) from notes')
    await (await moveOn(key, lock)).release()
    if (inSavepoint) await trx.query('savepoint s')
    // The handle itself knows of nothing yet, or the test would prove nothing.
    const refused = await lock.guard(trx).then(
      () => undefined,
      error => error,
    )
    expect(refused).toBeInstanceOf(LostError)
    if (inSavepoint) await trx.query('rollback to s')
    if (inSavepoint || level === 'read committed') await trx.query('select 1')
    await trx.query('rollback')
  })

  test('a new holder’s guard stands after the same history', async () => {
    const key = setting.key()
    const lock = await setting.fencepost().acquire(key)
    const next = await moveOn(key, lock)
    const trx = await setting.begun(`begin isolation level ${level}`)
    const guard = await next.guard(trx)
    await trx.query(`insert into notes values ('a')`)
    await guard.confirm()
    await trx.query('commit')
    expect(await setting.notes()).toEqual(['a'])
  })
})
