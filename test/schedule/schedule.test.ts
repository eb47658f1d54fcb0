// Schedules as a client runs them: each second, or at a time that the server's clock is about to reach.
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { BadOptionError, ClosedError, type Fencepost, type Tick, TickTimeoutError } from '../../src/index.ts'
import { jitterOf } from '../../src/schedule/definition.ts'
import { Gate } from '../conformance/gate.ts'
import { until } from '../support/until.ts'
import { at, ScheduleStage } from './stage.ts'

const stage = new ScheduleStage()
const eachSecond = '* * * * * *'
/** At midnight, which comes soon. */
const midnight = '0 0 * * *'
const beforeMidnight = '2025-05-31T23:59:59.600Z'
const firstOfJune = '2025-06-01T00:00:00Z'

const quiet = { onError: () => {} }

/** A way of connecting has warnings of its own. */
const ofCode = (calls: readonly unknown[][], code: string) =>
  calls.filter(([, how]) => (how as { code?: string } | undefined)?.code === code)

describe('each tick', () => {
  test('runs once among three clients, on time, and its row says so', async () => {
    const ran: { slot: number; by: number; at: number }[] = []
    const clients = [stage.client(), stage.client(), stage.client()]
    const clock = async () => {
      const [row] = await stage.db.query<{ now: number }>(
        `select extract(epoch from ${stage.sql('schedule_time')}())::float8 * 1000 as now`,
      )
      return row?.now ?? 0
    }
    const handles = await Promise.all(
      clients.map((client, by) =>
        client.schedule('s', eachSecond, async ({ slot }) => {
          ran.push({ slot: slot.getTime(), by, at: await clock() })
        }),
      ),
    )
    await stage.reached('s', 'finished', 4)
    await Promise.all(handles.map(handle => handle.stop()))
    const slots = ran.map(({ slot }) => slot)
    expect(new Set(slots).size).toBe(slots.length)
    for (const { slot, at } of ran) expect(at).toBeGreaterThanOrEqual(slot)
    const rows = await stage.ticks('s')
    expect(rows.map(({ slot }) => at(slot))).toEqual(slots)
    expect(rows.map(({ state }) => state)).toEqual(slots.map(() => 'finished'))
    const owners = clients.map(client => stage.ownerOf(client))
    expect(rows.map(({ owner }) => owner)).toEqual(ran.map(({ by }) => owners[by]))
    expect(slots.map((slot, i) => slot - (slots[0] as number) - i * 1_000)).toEqual(slots.map(() => 0))
  })

  test('is given its slot, a signal, the token of its lease, and transactions under that', async () => {
    await stage.setClock(beforeMidnight)
    const client = stage.client({ namespace: 'n' })
    await stage.db.query('create table if not exists written (slot timestamptz)')
    let seen: Tick | undefined
    const handle = await client.schedule('s', midnight, async tick => {
      seen = tick
      expect(tick.signal.aborted).toBe(false)
      expect(await stage.holders('n:s:schedule')).toEqual([stage.ownerOf(client)])
      const [held] = await stage.db.query<{ token: string }>(
        `select token from ${stage.sql('held')} where key = 'n:s:schedule'`,
      )
      expect(held?.token).toBe(String(tick.token))
      await tick.transaction(trx => trx.query('insert into written values ($1)', [tick.slot]))
    })
    expect(handle.name).toBe('n:s')
    await stage.reached('n:s', 'finished', 1)
    expect(await stage.ticks('n:s')).toMatchObject([{ slot: firstOfJune, attempt: 1, error: null }])
    expect([seen?.name, seen?.slot.toISOString(), seen?.attempt]).toEqual([
      'n:s',
      '2025-06-01T00:00:00.000Z',
      1,
    ])
    expect(await stage.db.query('select slot from written')).toEqual([{ slot: new Date(firstOfJune) }])
  })

  test('that is due while its schedule is already open runs at once, with what its last run left', async () => {
    await stage.setClock(beforeMidnight)
    const [one, other] = [stage.client(), stage.client()]
    const [gate, begun] = [new Gate(), new Gate()]
    const ran: string[] = []
    await one.schedule(
      's',
      eachSecond,
      async () => {
        begun.open()
        await gate.opened
      },
      quiet,
    )
    await begun.opened
    // Somebody who comes in the middle of a run stands in line for the lease.
    await other.schedule('s', eachSecond, () => void ran.push('other'))
    await stage.queued('s:schedule', 1)
    await stage.bury(one)
    await until(() => ran.length > 0)
    expect((await stage.ticks('s'))[0]).toMatchObject({ state: 'failed', error: 'its runner was lost' })
    gate.open()
  })
})

test('`next` goes by the database’s clock', async () => {
  await stage.setClock('2031-02-03T04:05:06Z')
  const handle = await stage.client().schedule('s', '0 5 * * *', () => {}, { timezone: 'Asia/Kathmandu' })
  expect(handle.next?.toISOString()).toBe('2031-02-03T23:15:00.000Z')
})

test('whatever a process’s own clock says', async () => {
  const skewed = vi.spyOn(Date, 'now').mockImplementation(() => 0)
  try {
    await stage.setClock(beforeMidnight)
    await stage.client().schedule('s', midnight, () => {})
    expect(await stage.reached('s', 'finished', 1)).toEqual([firstOfJune])
  } finally {
    skewed.mockRestore()
  }
})

test('by the clocks of a zone: a time that is not there, and one that is there twice', async () => {
  await stage.setClock('2025-03-30T00:59:59.700Z')
  await stage.client().schedule('spring', '30 2 * * *', () => {}, { timezone: 'Europe/Berlin' })
  expect(await stage.reached('spring', 'finished', 1)).toEqual(['2025-03-30T01:00:00Z'])
  await stage.setClock('2025-10-26T00:29:59.700Z')
  const autumn = await stage
    .client()
    .schedule('autumn', '30 2 * * *', () => {}, { timezone: 'Europe/Berlin' })
  expect(await stage.reached('autumn', 'finished', 1)).toEqual(['2025-10-26T00:30:00Z'])
  expect(autumn.next?.toISOString()).toBe('2025-10-27T01:30:00.000Z')
})

test('names that need quoting', async () => {
  await stage.setClock(beforeMidnight)
  const name = `o'clock "quoted" \\ {a,b} ü 🕰 %s`
  await stage.client().schedule(name, midnight, () => {})
  expect(await stage.reached(name, 'finished', 1)).toEqual([firstOfJune])
  const [overview] = await stage.client().schedules()
  expect(overview).toMatchObject({ name, last: { state: 'finished' } })
})

test('jitter: not before its slot, and not after the jitter', async () => {
  await stage.setClock('2025-05-31T23:59:59.900Z')
  await stage.client().schedule('s', midnight, () => {}, { jitter: '400ms' })
  await stage.reached('s', 'finished', 1)
  const [row] = await stage.db.query<{ late: number }>(
    `select extract(epoch from started_at - slot)::float8 * 1000 as late from ${stage.sql('ticks')}`,
  )
  const jitter = jitterOf('s', at(firstOfJune), 400)
  expect(row?.late).toBeGreaterThanOrEqual(jitter)
  const all = Array.from({ length: 1_000 }, (_, i) => jitterOf('s', at(firstOfJune) + i * 60_000, 400))
  expect(Math.min(...all)).toBeLessThan(10)
  expect(Math.max(...all)).toBeGreaterThan(389)
  expect(all.reduce((sum, each) => sum + each) / 1_000).toBeGreaterThan(180)
})

describe('a tick that fails', () => {
  test('is recorded with what it threw, and told', async () => {
    await stage.setClock(beforeMidnight)
    const told: unknown[] = []
    const failing = () => Promise.reject(new Error('no paper'))
    await stage.client().schedule('s', midnight, failing, {
      onError: (error, tick) => told.push([(error as Error).message, tick.slot.toISOString(), tick.attempt]),
    })
    await stage.reached('s', 'failed', 1)
    expect(await stage.ticks('s')).toMatchObject([{ attempt: 1, error: 'no paper' }])
    expect(told).toEqual([['no paper', '2025-06-01T00:00:00.000Z', 1]])
  })

  test('is a process warning, where nobody wants to be told', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    try {
      await stage.setClock(beforeMidnight)
      await stage.client().schedule('s', midnight, () => Promise.reject(new Error('no paper')))
      await stage.reached('s', 'failed', 1)
      expect(ofCode(warned.mock.calls, 'FENCEPOST_TICK_FAILED')).toEqual([
        [
          '"s" of 2025-06-01T00:00:00.000Z has failed, attempt 1: no paper',
          { type: 'FencepostWarning', code: 'FENCEPOST_TICK_FAILED' },
        ],
      ])
    } finally {
      warned.mockRestore()
    }
  })

  test('is tried again as often as is said, after a while, under a lease that is kept', async () => {
    await stage.setClock(beforeMidnight)
    const [one, other] = [stage.client(), stage.client()]
    const tokens: bigint[] = []
    const work = ({ attempt, token }: Tick) => {
      tokens.push(token)
      if (attempt < 3) throw new Error(`attempt ${attempt}`)
    }
    const options = { retry: { attempts: 3, backoff: '50ms' }, ...quiet }
    for (const client of [one, other]) await client.schedule('s', midnight, work, options)
    await stage.reached('s', 'finished', 1)
    expect(await stage.ticks('s')).toMatchObject([{ attempt: 3, error: null }])
    expect([tokens.length, new Set(tokens).size]).toEqual([3, 1])
  })

  test('at its last attempt as well has failed', async () => {
    await stage.setClock(beforeMidnight)
    let attempts = 0
    const work = () => {
      attempts += 1
      throw new Error('always')
    }
    await stage.client().schedule('s', midnight, work, { retry: { attempts: 2, backoff: 0 }, ...quiet })
    await stage.reached('s', 'failed', 1)
    expect([attempts, (await stage.ticks('s'))[0]?.attempt]).toEqual([2, 2])
  })
})

describe('a timeout', () => {
  test('aborts the signal, and the tick has failed', async () => {
    await stage.setClock(beforeMidnight)
    const reasons: unknown[] = []
    const work = async ({ signal }: Tick) => {
      await pause(60_000, undefined, { signal }).catch(() => {})
      reasons.push(signal.reason)
    }
    await stage.client().schedule('s', midnight, work, { timeout: '100ms', ...quiet })
    await stage.reached('s', 'failed', 1)
    expect((await stage.ticks('s'))[0]?.error).toBe('"s" of 2025-06-01T00:00:00.000Z took longer than 100 ms')
    await until(() => reasons.length === 1)
    expect(reasons[0]).toBeInstanceOf(TickTimeoutError)
    expect(reasons[0]).toMatchObject({ schedule: 's', timeout: 100, slot: new Date(firstOfJune) })
  })

  test('of work that takes no notice: failed at once, and nobody else runs before that has settled', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const gate = new Gate()
    let running = 0
    let most = 0
    let runs = 0
    const work = async () => {
      running += 1
      runs += 1
      most = Math.max(most, running)
      if (runs === 1) await gate.opened
      running -= 1
    }
    for (const client of [one, other])
      await client.schedule('s', eachSecond, work, { timeout: '100ms', ...quiet })
    await stage.reached('s', 'failed', 1)
    expect(running).toBe(1)
    await stage.reached('s', 'skipped', 2)
    gate.open()
    await stage.reached('s', 'finished', 1)
    expect(most).toBe(1)
  })
})

test('overlap: queue runs what came meanwhile, in order', async () => {
  const gate = new Gate()
  const ran: number[] = []
  const work = async ({ slot }: Tick) => {
    ran.push(slot.getTime())
    if (ran.length === 1) await gate.opened
  }
  await stage.client().schedule('s', eachSecond, work, { overlap: 'queue' })
  await stage.reached('s', 'due', 2)
  gate.open()
  await stage.reached('s', 'finished', 3)
  expect(ran.slice(0, 3)).toEqual((await stage.ticks('s')).slice(0, 3).map(({ slot }) => at(slot)))
})

describe('missed', () => {
  const atNoon = { missed: 'all' } as const

  test('by all nodes: their ticks are recorded by the next one that comes, and run as it is said', async () => {
    await stage.setClock(beforeMidnight)
    const gone = await stage.client().schedule('s', '0 * * * *', () => {}, atNoon)
    await stage.reached('s', 'finished', 1)
    await gone.stop()
    await stage.setClock('2025-06-01T03:20:00Z')
    const ran: string[] = []
    const work = ({ slot }: Tick) => void ran.push(slot.toISOString().slice(11, 16))
    await stage.client().schedule('s', '0 * * * *', work, atNoon)
    await stage.reached('s', 'finished', 4)
    expect(ran).toEqual(['01:00', '02:00', '03:00'])
  })

  test('thousands of them, in calls of a thousand', async () => {
    await stage.setClock(beforeMidnight)
    const gone = await stage.client().schedule('s', '* * * * *', () => {}, atNoon)
    await stage.reached('s', 'finished', 1)
    await gone.stop()
    await stage.setClock('2025-06-03T12:00:30Z')
    const next = await stage.client().schedule('s', '* * * * *', () => {}, atNoon)
    await stage.reached('s', 'finished', 25)
    await next.stop()
    const states = await stage.ticks('s')
    const [count, missed] = [states.length, states.filter(({ state }) => state === 'missed').length]
    expect(count).toBeGreaterThanOrEqual(1 + 60 * 60)
    expect(count - missed).toBeGreaterThanOrEqual(25)
    expect(count - missed).toBeLessThanOrEqual(26)
  })
})

describe('drift', () => {
  test('is a warning, once, that says in what; all nodes run by the definition that rules', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    try {
      const ran: string[] = []
      const [one, other] = [stage.client(), stage.client()]
      const first = await one.schedule('s', eachSecond, () => void ran.push('one'))
      const second = await other.schedule('s', midnight, () => void ran.push('other'), { missed: 'once' })
      await first.stop()
      const drifts = ofCode(warned.mock.calls, 'FENCEPOST_SCHEDULE_DRIFT')
      expect(drifts).toHaveLength(1)
      expect(drifts[0]).toEqual([
        '"s" runs by another definition than this process has: cron "* * * * * *", not "0 0 * * *"; ' +
          'missed "skip", not "once". The higher version rules, else the first',
        { type: 'FencepostWarning', code: 'FENCEPOST_SCHEDULE_DRIFT' },
      ])
      expect(second.next).not.toBeNull()
    } finally {
      warned.mockRestore()
    }
  })

  test('a higher version rules at once, and the others follow at their next look', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const ran: string[] = []
    await one.schedule('s', eachSecond, () => void ran.push('one'), { version: 1 })
    await stage.reached('s', 'finished', 1)
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const handle = await other.schedule('s', '30 4 1 1 *', () => void ran.push('other'), { version: 2 })
    await until(() => ofCode(warned.mock.calls, 'FENCEPOST_SCHEDULE_DRIFT').length > 0)
    warned.mockRestore()
    const before = ran.length
    await pause(1_500)
    expect(ran.length).toBe(before)
    expect(handle.next?.getUTCMonth()).toBe(0)
    const [overview] = await other.schedules()
    expect(overview).toMatchObject({
      version: 2,
      cron: '30 4 1 1 *',
      drift: [{ owner: stage.ownerOf(one), version: 1, cron: eachSecond }],
    })
  })
})

describe('stop', () => {
  test('waits for the tick that runs, and starts no other; others go on', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const [gate, begun] = [new Gate(), new Gate()]
    const ran: string[] = []
    const handle = await one.schedule('s', eachSecond, async ({ signal }) => {
      begun.open()
      await gate.opened
      ran.push(signal.aborted ? 'aborted' : 'one')
    })
    await begun.opened
    await other.schedule('s', eachSecond, () => void ran.push('other'))
    let isStopped = false
    const stopped = handle.stop().then(() => {
      isStopped = true
    })
    await stage.reached('s', 'skipped', 1)
    expect(isStopped).toBe(false)
    gate.open()
    await stopped
    await until(() => ran.includes('other'))
    expect(ran.filter(by => by !== 'other')).toEqual(['one'])
    expect((await other.schedules())[0]?.nodes).toBe(1)
    await handle.stop()
  })

  test('then the client may run it anew; before, it may not', async () => {
    const client = stage.client()
    const handle = await client.schedule('s', midnight, () => {})
    await expect(client.schedule('s', midnight, () => {})).rejects.toThrow(BadOptionError)
    await handle.stop()
    await using again = await client.schedule('s', midnight, () => {})
    expect(again.name).toBe('s')
  })

  test('close aborts the tick that runs, waits for it, and keeps what it did', async () => {
    const client = stage.client()
    const begun = new Gate()
    await client.schedule('s', eachSecond, async ({ signal }) => {
      begun.open()
      await pause(60_000, undefined, { signal }).catch(() => {})
    })
    await begun.opened
    await client.close()
    expect((await stage.ticks('s'))[0]?.state).toBe('finished')
    await expect(client.schedule('t', midnight, () => {})).rejects.toThrow(ClosedError)
    await expect(client.schedules()).rejects.toThrow(ClosedError)
  })

  test('a tick that fails at a close is another node’s, if it may be tried again', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const begun = new Gate()
    const attempts: unknown[] = []
    const options = { retry: { attempts: 2, backoff: '1m' }, ...quiet }
    await one.schedule(
      's',
      eachSecond,
      async ({ signal }) => {
        begun.open()
        await pause(60_000, undefined, { signal })
      },
      options,
    )
    await begun.opened
    await other.schedule('s', eachSecond, ({ slot, attempt }) => void attempts.push([slot, attempt]), options)
    await stage.queued('s:schedule', 1)
    await one.close()
    await until(() => attempts.length > 0)
    const [tick] = await stage.ticks('s')
    expect(attempts[0]).toEqual([new Date(tick?.slot as string), 2])
  })
})

test('the lease is lost: the signal says so, and the tick is another’s', async () => {
  const [one, other] = [stage.client({ ttl: '3s' }), stage.client()]
  const reasons: unknown[] = []
  const begun = new Gate()
  await one.schedule(
    's',
    eachSecond,
    async ({ signal }) => {
      begun.open()
      await pause(60_000, undefined, { signal }).catch(() => reasons.push(signal.reason))
    },
    quiet,
  )
  await begun.opened
  await other.schedule('s', eachSecond, () => {})
  await stage.queued('s:schedule', 1)
  await stage.bury(one)
  await until(() => reasons.length === 1)
  expect(reasons[0]).toMatchObject({ code: 'lost', key: 's:schedule' })
  await stage.reached('s', 'finished', 1)
  expect((await stage.ticks('s'))[0]).toMatchObject({ state: 'failed', error: 'its runner was lost' })
})

describe('what is refused', () => {
  const wrong: [string, (client: Fencepost) => Promise<unknown>][] = [
    ['cron: want an expression', client => client.schedule('s', '61 * * * *', () => {})],
    ['cron: want an expression', client => client.schedule('s', undefined as unknown as string, () => {})],
    ['timezone: want a name', client => client.schedule('s', '* * * * *', () => {}, { timezone: 'Mars' })],
    ['timezone: want', client => client.schedule('s', '* * * * *', () => {}, { timezone: 7 as never })],
    ['want a function', client => client.schedule('s', '* * * * *', undefined as never)],
    [
      "missed: want 'skip', 'once' or 'all'",
      c => c.schedule('s', '* * * * *', () => {}, { missed: 'no' as never }),
    ],
    [
      "overlap: want 'skip' or 'queue'",
      c => c.schedule('s', '* * * * *', () => {}, { overlap: 'no' as never }),
    ],
    [
      'missedLimit: want a whole number from 1 to 1000',
      c => c.schedule('s', '* * * * *', () => {}, { missedLimit: 1_001 }),
    ],
    ['startWithin: want', c => c.schedule('s', '* * * * *', () => {}, { startWithin: 1 })],
    ['timeout: want', c => c.schedule('s', '* * * * *', () => {}, { timeout: 0 })],
    ['jitter: want', c => c.schedule('s', '* * * * *', () => {}, { jitter: -1 })],
    ['retention: want', c => c.schedule('s', '* * * * *', () => {}, { retention: '1s' })],
    ['retry: want', c => c.schedule('s', '* * * * *', () => {}, { retry: 3 as never })],
    ['retry.attempts: want', c => c.schedule('s', '* * * * *', () => {}, { retry: { attempts: 0 } })],
    [
      'retry.backoff: want',
      c => c.schedule('s', '* * * * *', () => {}, { retry: { attempts: 2, backoff: 'x' } }),
    ],
    ['version: want', c => c.schedule('s', '* * * * *', () => {}, { version: 1.5 })],
    ['onError: want', c => c.schedule('s', '* * * * *', () => {}, { onError: 1 as never })],
    ['ttl: want', c => c.schedule('s', '* * * * *', () => {}, { ttl: 1 })],
    ['options: want an object', c => c.schedule('s', '* * * * *', () => {}, null as never)],
  ]

  test.each(wrong)('%s', async (message, ask) => {
    const refused = ask(stage.client())
    await expect(refused).rejects.toThrow(BadOptionError)
    await expect(refused).rejects.toThrow(message)
    expect(await stage.db.query(`select from ${stage.sql('schedules')}`)).toEqual([])
  })

  test.each([
    ['', 'not empty'],
    ['a\0b', 'NUL'],
    [7 as never, 'string'],
    ['x'.repeat(995), '1000 bytes'],
  ])('the name %j', async (name, message) => {
    const refused = stage.client().schedule(name, '* * * * *', () => {})
    await expect(refused).rejects.toMatchObject({
      code: 'bad_key',
      message: expect.stringContaining(message),
    })
  })
})
