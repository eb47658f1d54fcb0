import { describe, expect, test } from 'vitest'
import { BadOptionError, BadResultError, LostError, type OnceContext } from '../../src/index.ts'
import { Gate } from '../conformance/gate.ts'
import { until } from '../support/until.ts'
import { ScheduleStage } from './stage.ts'

const stage = new ScheduleStage()
const day = { within: '1d' } as const

describe('once', () => {
  test('fifty callers of two clients at once: one works, and all get what it returned', async () => {
    const clients = [stage.client(), stage.client()]
    let works = 0
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        (clients[i % 2] as (typeof clients)[0]).once(
          'k',
          async () => {
            works += 1
            await new Promise(resolve => setTimeout(resolve, 20))
            return { work: works, by: i }
          },
          day,
        ),
      ),
    )
    expect(works).toBe(1)
    expect(new Set(answers.map(answer => JSON.stringify(answer))).size).toBe(1)
    expect(answers[0]).toMatchObject({ work: 1 })
    expect(await stage.client().once('k', () => 'not again', day)).toEqual(answers[0])
    expect(await stage.keysInUse()).toEqual([])
  })

  test('a lease is not passed on inside the process: what comes late under it must not find it held', async () => {
    const client = stage.client()
    const fails = () => {
      throw new Error('of no use')
    }
    const outcomes = await Promise.allSettled(Array.from({ length: 10 }, () => client.once('k', fails, day)))
    expect(outcomes.map(({ status }) => status)).toEqual(outcomes.map(() => 'rejected'))
    expect(client.metrics().passed).toBe(0)
  })

  test('the work is told under which lease it runs, and may write under it', async () => {
    const client = stage.client({ namespace: 'n' })
    await stage.db.query('create table if not exists once_written (token bigint)')
    let seen: OnceContext | undefined
    await client.once(
      'k',
      async context => {
        seen = context
        expect(await stage.holders('n:k:once')).toEqual([stage.ownerOf(client)])
        await context.transaction(trx =>
          trx.query('insert into once_written values ($1)', [String(context.token)]),
        )
      },
      day,
    )
    expect([seen?.key, seen?.signal.aborted]).toEqual(['n:k', false])
    expect(await stage.db.query('select token from once_written')).toEqual([{ token: String(seen?.token) }])
    expect(await stage.db.query(`select key from ${stage.sql('once')}`)).toEqual([{ key: 'n:k' }])
  })

  test('a throw is not remembered: it is the caller’s, and who waits works then', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const [gate, begun] = [new Gate(), new Gate()]
    const failing = one.once(
      'k',
      async () => {
        begun.open()
        await gate.opened
        throw new Error('mine')
      },
      day,
    )
    await begun.opened
    const waiting = other.once('k', () => 'theirs', day)
    await stage.queued('k:once', 1)
    gate.open()
    await expect(failing).rejects.toThrow('mine')
    expect(await waiting).toBe('theirs')
    expect(await one.once('k', () => 'no more', day)).toBe('theirs')
  })

  test('a result is kept `within`, by the server’s clock, and then it is done anew', async () => {
    const client = stage.client()
    await stage.setClock('2025-06-01T00:00:00Z')
    expect(await client.once('k', () => 1, { within: '1h' })).toBe(1)
    await stage.setClock('2025-06-01T00:59:50Z')
    expect(await client.once('k', () => 2, { within: '1h' })).toBe(1)
    await stage.setClock('2025-06-01T01:00:01Z')
    expect(await client.once('k', () => 3, { within: '1h' })).toBe(3)
    expect(await client.once('k', () => 4, { within: '1h' })).toBe(3)
  })

  test('then it is deleted, by whoever records another', async () => {
    const client = stage.client()
    await stage.setClock('2025-06-01T00:00:00Z')
    for (const key of ['a', 'b', 'c']) await client.once(key, () => key, { within: '1h' })
    await stage.setClock('2025-06-01T02:00:00Z')
    await client.once('d', () => 'd', { within: '1h' })
    expect(await stage.db.query(`select key from ${stage.sql('once')}`)).toEqual([{ key: 'd' }])
  })

  test('keys that need quoting, and their values', async () => {
    const client = stage.client()
    const key = `o'clock "quoted" \\ {a,b} ü 🕰 %s`
    expect(await client.once(key, () => key, day)).toBe(key)
    expect(await client.once(key, () => '', day)).toBe(key)
  })

  test('to wait can be given up', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const gate = new Gate()
    const working = one.once('k', () => gate.opened.then(() => 1), day)
    await until(async () => (await stage.keysInUse()).length > 0)
    await expect(other.once('k', () => 2, { ...day, timeout: 0 })).rejects.toMatchObject({
      code: 'timed_out',
    })
    const controller = new AbortController()
    const waiting = other.once('k', () => 2, { ...day, signal: controller.signal })
    await stage.queued('k:once', 1)
    controller.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'aborted' })
    gate.open()
    expect(await working).toBe(1)
  })

  test('inside of itself it is refused', async () => {
    const client = stage.client()
    const inside = client.once('k', () => client.once('k', () => 1, day), day)
    await expect(inside).rejects.toMatchObject({ code: 'already_held' })
  })
})

describe('who has lost the lease', () => {
  test('records nothing, and the next one works', async () => {
    const [zombie, other] = [stage.client(), stage.client()]
    const [gate, begun] = [new Gate(), new Gate()]
    const late = zombie.once(
      'k',
      async () => {
        begun.open()
        await gate.opened
        return 'late'
      },
      day,
    )
    const settled = expect(late).rejects.toThrow(LostError)
    await begun.opened
    await stage.bury(zombie)
    expect(await other.once('k', () => 'in time', day)).toBe('in time')
    gate.open()
    await settled
    expect(await stage.client().once('k', () => 'no more', day)).toBe('in time')
  })

  test('just after it was recorded gets it all the same', async () => {
    // Its renewals wait for as long as the record takes to be answered.
    const client = stage.client({ ttl: '2s' })
    await stage.db.query(
      `create or replace function lose() returns trigger language plpgsql as $$ begin
         update ${stage.sql('sessions')} set died = clock_timestamp(), generation = generation + 1 where died is null;
         perform pg_sleep(2.5); return null; end $$`,
    )
    await stage.db.query(
      `create trigger lose after insert on ${stage.sql('once')} for each row execute function lose()`,
    )
    try {
      expect(await client.once('k', () => 'recorded', day)).toBe('recorded')
    } finally {
      await stage.db.query(`drop trigger lose on ${stage.sql('once')}`)
    }
  })
})

test('recorded again under the same lease, it stays what it was: the first answer was lost, and the call repeated', async () => {
  const lock = await stage.client().acquire('k:once')
  const record = (result: string) =>
    stage.db.query(`select ${stage.sql('record_once')}('k', $1, $2, 60000)`, [String(lock.token), result])
  await record('"first"')
  await record('"second"')
  expect(await stage.db.query(`select result from ${stage.sql('once')}`)).toEqual([{ result: 'first' }])
})

describe('what is kept', () => {
  test.each([
    ['nothing', undefined],
    ['null', null],
    ['text', 'with \0, "quotes" and ü'],
    ['numbers', [0, -1.5, 1e300, Number.MAX_SAFE_INTEGER]],
    ['a tree', { a: [{ b: true, c: null }, []], d: {}, '': 'e', __proto__: null }],
  ])('%s, the same for all', async (_, value) => {
    const client = stage.client()
    const first = await client.once('k', () => value, day)
    const second = await client.once('k', () => 'another', day)
    expect(first).toEqual(value)
    expect(second).toEqual(first)
  })

  const around: Record<string, unknown> = {}
  around.inside = around
  test.each([
    [10n, 'it is a bigint'],
    [() => 1, 'it is a function'],
    [Symbol('s'), 'it is a symbol'],
    [Number.NaN, 'it is NaN'],
    [{ a: [1, Number.POSITIVE_INFINITY] }, 'it.a[1] is Infinity'],
    [{ at: new Date(0) }, 'it.at is a Date'],
    [new Map(), 'it is a Map'],
    [[1, undefined], 'it[1] is undefined'],
    [around, 'it.inside is inside of itself'],
    ['\ud800', 'it has half a surrogate pair in it'],
    ['x'.repeat(1_000_001), 'it has more than 1000000 bytes as JSON'],
  ])('what JSON cannot hold is refused in words, and not remembered: %#', async (value, why) => {
    const client = stage.client()
    const refused = client.once('k', () => value as unknown, day)
    await expect(refused).rejects.toThrow(BadResultError)
    await expect(refused).rejects.toMatchObject({
      code: 'bad_result',
      key: 'k',
      message: `the result of "k" cannot be kept: ${why}. Want what JSON can hold, or nothing`,
    })
    expect(await client.once('k', () => 'fits', day)).toBe('fits')
  })

  test('what is undefined in an object is left out, for all', async () => {
    const client = stage.client()
    expect(Object.keys(await client.once('k', () => ({ a: 1, b: undefined }), day))).toEqual(['a'])
  })
})

test.each([
  [{}, 'within: want'],
  [{ within: 1 }, 'within: want'],
  [{ within: '1d', ttl: 1 }, 'ttl: want'],
  [{ within: '1d', timeout: 'x' }, 'timeout: want'],
  [{ within: '1d', signal: 1 }, 'signal: want'],
  [undefined, 'options: want'],
])('options that are refused: %j', async (options, message) => {
  let isDone = false
  const refused = stage.client().once(
    'k',
    () => {
      isDone = true
    },
    options as never,
  )
  await expect(refused).rejects.toThrow(BadOptionError)
  await expect(refused).rejects.toThrow(message)
  expect(isDone).toBe(false)
})

test('keys and works that are refused', async () => {
  const client = stage.client()
  await expect(client.once('', () => 1, day)).rejects.toMatchObject({ code: 'bad_key' })
  await expect(client.once(7 as never, () => 1, day)).rejects.toMatchObject({ code: 'bad_key' })
  await expect(client.once('x'.repeat(996), () => 1, day)).rejects.toMatchObject({ code: 'bad_key' })
  await expect(client.once('k', 'work' as never, day)).rejects.toMatchObject({ code: 'bad_option' })
  await client.close()
  await expect(client.once('k', () => 1, day)).rejects.toMatchObject({ code: 'closed' })
})
