// A guard that is not ended by its own program.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { twist } from '../support/twist.ts'
import { until } from '../support/until.ts'
import { Setting } from './support/setting.ts'

let setting: Setting
let schema: string
let hasTransactionTimeout: boolean
beforeAll(async () => {
  setting = await Setting.create()
  schema = `"${setting.db.schema.replaceAll('"', '""')}"`
  const [row] = await setting.db.query<{ yes: boolean }>(
    `select current_setting('server_version_num')::int >= 170000 as yes`,
  )
  hasTransactionTimeout = row?.yes ?? false
})
afterEach(() => setting.clear())
afterAll(() => setting.db.drop())

/** A pooler may put words of its own in the place of the server's last ones. */
const ended = (...others: string[]) => {
  const codes = [
    'transaction_timeout',
    ...others,
    ...(twist.name === 'pgbouncer' ? ['unreachable', '08P01'] : []),
  ]
  return { code: expect.stringMatching(new RegExp(`^(${codes.join('|')})$`)) }
}

test('one that does nothing is ended by the server, and the next in line is granted', async () => {
  const key = setting.key()
  const lock = await setting.fencepost({ ttl: 1_000 }).acquire(key)
  const began = performance.now()
  const stuck = lock.transaction(async trx => {
    await trx.query('insert into notes values ($1)', ['a'])
    await new Promise(() => {})
  })
  const next = setting.fencepost({ poll: 20 }).acquire(key)
  await expect(stuck).rejects.toMatchObject(ended())
  expect(performance.now() - began).toBeLessThan(3_000)
  await lock.release()
  await (await next).release()
  expect(await setting.notes()).toEqual([])
})

test('one that goes on and on with short statements is ended, and the next in line is granted', async () => {
  const key = setting.key()
  const lock = await setting.fencepost({ ttl: 1_000 }).acquire(key)
  const began = performance.now()
  const busy = lock.transaction(async trx => {
    await trx.query('insert into notes values ($1)', ['a'])
    for (;;) await trx.query('select pg_sleep(0.02)')
  })
  const next = setting.fencepost({ poll: 20 }).acquire(key, { timeout: '10s' })
  await expect(busy).rejects.toMatchObject(ended())
  expect(performance.now() - began).toBeLessThan(5_000)
  expect(await setting.notes()).toEqual([])
  // Still held: only the transaction is over.
  expect(lock.state).toBe('held')
  await lock.release()
  await (await next).release()
})

test('a single long statement is ended', async () => {
  const lock = await setting.fencepost({ ttl: 1_000 }).acquire(setting.key())
  const began = performance.now()
  const long = lock.transaction(trx => trx.query('select pg_sleep(20)'))
  await expect(long).rejects.toMatchObject(ended('57014'))
  expect(performance.now() - began).toBeLessThan(3_000)
})

test('where the server does not end it, the client does: a transaction of one’s own', async () => {
  const lock = await setting.fencepost({ ttl: 1_000 }).acquire(setting.key())
  const trx = await setting.begun()
  await lock.guard(trx)
  for (const name of ['transaction_timeout', 'idle_in_transaction_session_timeout', 'statement_timeout']) {
    await trx.query(`select set_config(name, '0', true) from pg_settings where name = $1`, [name])
  }
  await expect(
    until(
      async () => {
        await trx.query('select 1')
        return false
      },
      { within: 4_000 },
    ),
  ).rejects.toThrow()
  await expect(trx.query('select 1')).rejects.toThrow()
})

test('the timeouts are gone with the transaction', async () => {
  const pool = setting.db.pool({ max: 1 })
  const lock = await setting.fencepost({ pool }).acquire(setting.key())
  const settings = `select current_setting('idle_in_transaction_session_timeout') as idle,
    current_setting('statement_timeout') as statement, current_setting('transaction_timeout', true) as transaction`
  const before = (await pool.query(settings)).rows
  const [inside] = await lock.transaction(async trx => (await trx.query(settings)).rows)
  const bound = hasTransactionTimeout ? inside.transaction : inside.idle
  expect(Number.parseInt(bound, 10)).toBeGreaterThan(0)
  expect((await pool.query(settings)).rows).toEqual(before)
})

test('one that is open past the ttl keeps its own line waiting, and nobody else', async () => {
  const [key, other] = [setting.key(), setting.key()]
  const fp = setting.fencepost({ ttl: 1_000, poll: 20 })
  const [lock, besides] = [await fp.acquire(key), await fp.acquire(other)]
  const trx = await setting.begun()
  // As plain SQL: nothing bounds it.
  await trx.query(`select ${schema}.assert_held($1, $2)`, [key, lock.token])
  await lock.release()
  let granted = false
  const next = fp.acquire(key).then(taken => {
    granted = true
    return taken
  })
  const opened = performance.now()
  const latencies: number[] = []
  const neighbour = setting.fencepost()
  while (performance.now() - opened < 1_600) {
    const asked = performance.now()
    await Promise.all([1, 2, 3].map(n => fp.withLock(`${other} ${n}`, () => {})))
    await neighbour.withLock(`${other} x`, () => {})
    latencies.push(performance.now() - asked)
  }
  expect(granted).toBe(false)
  expect(besides.state).toBe('held')
  expect(besides.remaining).toBeGreaterThan(200)
  expect(Math.max(...latencies)).toBeLessThan(1_000)
  expect(latencies.sort((a, b) => a - b)[Math.floor(latencies.length / 2)]).toBeLessThan(150)
  await trx.query('commit')
  await (await next).release()
})

// Straight to the server, whatever the twist: a role may have a shorter timeout of its own.
test('a warning tells of one that is open for long, and of none that has ended', {
  timeout: 20_000,
}, async () => {
  const fp = setting.fencepost({ pool: setting.db.pool() })
  const [own, guarded, ended] = await Promise.all([1, 2, 3].map(() => fp.acquire(setting.key())))
  const warnings: string[] = []
  const listener = (warning: Error & { code?: string }) => {
    if (warning.code === 'FENCEPOST_GUARD_OPEN') warnings.push(warning.message)
  }
  process.on('warning', listener)
  const [trx, over] = [await setting.begun(), await setting.begun()]
  await ended?.guard(over)
  await over.query('commit')
  await guarded?.guard(trx)
  await own?.transaction(() => until(() => warnings.length === 2))
  process.off('warning', listener)
  const told = (key: string | undefined) =>
    expect.stringMatching(new RegExp(`"${key}" has been open for 5000 ms`))
  expect(warnings).toEqual(expect.arrayContaining([told(own?.key), told(guarded?.key)]))
})
