import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  LostError,
  NestedTransactionError,
  NotInTransactionError,
  UnreachableError,
} from '../../src/index.ts'
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

const levels = ['read committed', 'repeatable read', 'serializable'] as const
const write = (text: string) => ({ text: 'insert into notes values ($1)', values: [text] })
/** Takes the grant away as an expired session's is, and has the next in line granted. */
const forceExpiry = (key: string) =>
  setting.db.query(
    `update ${schema}.sessions set expires_at = clock_timestamp() - interval '1 second'
      where id = (select session from ${schema}.locks where key = $1)`,
    [key],
  )
const tick = async () => {
  await setting.db.query(`update ${schema}.reaper set looked_at = '-infinity'`)
  await setting.db.query(`select ${schema}.tick(gen_random_uuid())`)
}

describe.each(levels)('at %s', isolationLevel => {
  test('commits what is done while it is held, and answers what the work answers', async () => {
    const lock = await setting.fencepost().acquire(setting.key())
    const result = await lock.transaction(
      async trx => {
        await trx.query('insert into notes values ($1)', ['a'])
        const { rows } = await trx.query(`select current_setting('transaction_isolation') as level`)
        return rows[0].level
      },
      { isolationLevel },
    )
    expect(result).toBe(isolationLevel)
    expect(await setting.notes()).toEqual(['a'])
    expect(lock.state).toBe('held')
  })

  test('what the work throws is thrown as it is, and nothing is written', async () => {
    const lock = await setting.fencepost().acquire(setting.key())
    const own = new Error('mine')
    const work = async (trx: { query(text: string, values: unknown[]): Promise<unknown> }) => {
      await trx.query('insert into notes values ($1)', ['a'])
      throw own
    }
    await expect(lock.transaction(work, { isolationLevel })).rejects.toBe(own)
    await expect(
      lock.transaction(() => {
        throw own
      }),
    ).rejects.toBe(own)
    await expect(lock.transaction(trx => trx.query('select 1/0'), { isolationLevel })).rejects.toMatchObject({
      code: '22012',
    })
    expect(await setting.notes()).toEqual([])
  })

  test('lost before: nothing runs', async () => {
    const key = setting.key()
    const lock = await setting.fencepost().acquire(key)
    await forceExpiry(key)
    await tick()
    let ran = false
    const done = lock.transaction(
      () => {
        ran = true
      },
      { isolationLevel },
    )
    await expect(done).rejects.toMatchObject({ code: 'lost', reason: 'expired' })
    expect(ran).toBe(false)
    expect(lock.state).toBe('lost')
    await expect(lock.transaction(() => {})).rejects.toBeInstanceOf(LostError)
  })

  test('lost while it runs: the next in line waits for its end, and it commits', async () => {
    const key = setting.key()
    const lock = await setting.fencepost().acquire(key)
    let next: Promise<{ token: bigint; release(): Promise<unknown> }> | undefined
    let isGranted = false
    await lock.transaction(
      async trx => {
        next = setting.fencepost({ poll: 20 }).acquire(key)
        void next.then(() => {
          isGranted = true
        })
        await until(async () => (await setting.db.query(`select from ${schema}.waiters`)).length === 1)
        await forceExpiry(key)
        await tick()
        await until(async () => {
          const rows = await setting.db.query<{ released: boolean }>(`select released from ${schema}.locks`)
          return rows[0]?.released
        })
        expect(isGranted).toBe(false)
        await trx.query('insert into notes values ($1)', ['while pinned'])
      },
      { isolationLevel },
    )
    expect(await setting.notes()).toEqual(['while pinned'])
    const later = await next
    expect(later?.token).toBeGreaterThan(0n)
    await later?.release()
  })

  test.each(['before', 'after'])('a rollback to a savepoint from %s the pin', async when => {
    const key = setting.key()
    const lock = await setting.fencepost().acquire(key)
    const trx = await setting.begun(`begin isolation level ${isolationLevel}`)
    if (when === 'before') await trx.query('savepoint s')
    const guard = await lock.guard(trx)
    if (when === 'after') await trx.query('savepoint s')
    await trx.query('insert into notes values ($1)', ['a'])
    await trx.query('rollback to s')
    await trx.query('insert into notes values ($1)', ['b'])
    await forceExpiry(key)
    await tick()
    // Nobody waits, so that what is not pinned is gone.
    const rows = await setting.db.query(`select from ${schema}.locks`)
    expect(rows).toHaveLength(when === 'before' ? 0 : 1)
    if (when === 'before') {
      await expect(guard.confirm()).rejects.toMatchObject({ code: 'lost' })
      await expect(trx.query('select 1')).rejects.toMatchObject({ code: '25P02' })
      await trx.query('rollback')
      expect(await setting.notes()).toEqual([])
    } else {
      await guard.confirm()
      await trx.query('commit')
      expect(await setting.notes()).toEqual(['b'])
      await tick()
    }
  })
})

test('bad isolation levels and no function are refused', async () => {
  const lock = await setting.fencepost().acquire(setting.key())
  const level = { isolationLevel: 'chaos' as never }
  await expect(lock.transaction(() => {}, level)).rejects.toMatchObject({ code: 'bad_option' })
  await expect(lock.transaction(undefined as never)).rejects.toMatchObject({ code: 'bad_option' })
})

test('released: refused; no pool: refused, and guard works there', async () => {
  const fp = setting.fencepost()
  const lock = await fp.acquire(setting.key())
  await lock.release()
  await expect(lock.transaction(() => {})).rejects.toMatchObject({ code: 'not_held' })
  const trx = await setting.begun()
  await expect(lock.guard(trx)).rejects.toMatchObject({ code: 'not_held' })
  expect((await trx.query('select 1 as one')).rows).toEqual([{ one: 1 }])

  const pool = setting.db.pool()
  const query = { query: (text: string, values?: unknown[]) => pool.query(text, values) }
  const other = await setting.fencepost({ pool: query }).acquire(setting.key())
  await expect(other.transaction(() => {})).rejects.toMatchObject({ code: 'bad_option' })
  await other.guard(trx)
  await trx.query('commit')
})

test('a connection string will do', async () => {
  const fp = setting.fencepost({ pool: setting.db.url })
  await fp.withLock(setting.key(), lock => lock.transaction(trx => trx.query(write('a').text, ['a'])))
  expect(await setting.notes()).toEqual(['a'])
})

test('nested under the same lock: refused; under another: both commit', async () => {
  const fp = setting.fencepost()
  const [a, b] = [await fp.acquire(setting.key()), await fp.acquire(setting.key())]
  await a.transaction(async trx => {
    await trx.query('insert into notes values ($1)', ['a'])
    await expect(a.transaction(() => {})).rejects.toBeInstanceOf(NestedTransactionError)
    await b.transaction(inner => inner.query('insert into notes values ($1)', ['b']))
  })
  await Promise.all([a.transaction(() => {}), a.transaction(() => {})])
  expect(await setting.notes()).toEqual(['a', 'b'])
})

test('the client is of no use after its transaction', async () => {
  const lock = await setting.fencepost().acquire(setting.key())
  const kept = await lock.transaction(trx => [trx])
  expect(() => kept[0]?.query('select 1')).toThrow(NotInTransactionError)
})

test('a commit inside is told', async () => {
  const lock = await setting.fencepost().acquire(setting.key())
  await expect(lock.transaction(trx => trx.query('commit'))).rejects.toBeInstanceOf(NotInTransactionError)
})

test('work that ends it and begins another: told, and refused where the lock has gone by then', async () => {
  const key = setting.key()
  const lock = await setting.fencepost().acquire(key)
  const anew = lock.transaction(trx => trx.query(`rollback; begin; insert into notes values ('a')`))
  await expect(anew).rejects.toBeInstanceOf(NotInTransactionError)
  await setting.db.query('delete from notes')
  const handedOn = lock.transaction(async trx => {
    await trx.query('rollback; begin')
    await setting.db.query(`delete from ${schema}.locks`)
    await trx.query(`insert into notes values ('b')`)
  })
  await expect(handedOn).rejects.toMatchObject({ code: 'lost', cause: { code: 'FP003' } })
  expect(await setting.notes()).toEqual([])
})

test('a constraint that is checked at the commit: its own error', async () => {
  await setting.db.query(
    'create table once (n int unique deferrable initially deferred); insert into once values (1)',
  )
  const lock = await setting.fencepost().acquire(setting.key())
  await expect(lock.transaction(trx => trx.query('insert into once values (1)'))).rejects.toMatchObject({
    code: '23505',
  })
})

test('the backend is ended inside: told, and the pool gets no broken client back', async () => {
  const pool = setting.db.pool({ max: 1 })
  const lock = await setting.fencepost({ pool }).acquire(setting.key())
  let pid = 0
  const idle = lock.transaction(async trx => {
    pid = (await trx.query('select pg_backend_pid() as pid')).rows[0].pid
    await trx.query('insert into notes values ($1)', ['a'])
    await setting.db.query('select pg_terminate_backend($1)', [pid])
    await new Promise(() => {})
  })
  await expect(idle).rejects.toBeInstanceOf(UnreachableError)
  const own = new Error('mine')
  const after = lock.transaction(async trx => {
    pid = (await trx.query('select pg_backend_pid() as pid')).rows[0].pid
    await setting.db.query('select pg_terminate_backend($1, 5000)', [pid])
    throw own
  })
  await expect(after).rejects.toSatisfy(error => error === own || error instanceof UnreachableError)
  const asked = lock.transaction(trx => trx.query('select pg_terminate_backend(pg_backend_pid())'))
  await expect(asked).rejects.toMatchObject({ code: expect.stringMatching(/^(57P01|unreachable)$/) })
  await lock.transaction(trx => trx.query('insert into notes values ($1)', ['b']))
  expect(await setting.notes()).toEqual(['b'])
  expect(pool.totalCount).toBe(1)
})

test('50 callers with withLock and transaction on a pool of 2', async () => {
  const fp = setting.fencepost({ pool: setting.db.pool({ max: 2 }) })
  const key = setting.key()
  await setting.db.query('create table counter as select 0 as value')
  const add = () =>
    fp.withLock(key, lock =>
      lock.transaction(async trx => {
        const { rows } = await trx.query('select value from counter')
        await trx.query('update counter set value = $1', [rows[0].value + 1])
      }),
    )
  await Promise.all(Array.from({ length: 50 }, add))
  expect(await setting.db.query('select value from counter')).toEqual([{ value: 50 }])
})
