// What becomes of slots, by the SQL functions alone: the clock is moved, and each call is made when the test says so.
import { describe, expect, test } from 'vitest'
import { until } from '../support/until.ts'
import { Node, type State } from './node.ts'
import { at, ScheduleStage } from './stage.ts'

const stage = new ScheduleStage()
const day = '2025-06-01T'
const minutes = (from: number, until: number) =>
  Array.from({ length: until - from + 1 }, (_, i) => at(`${day}00:00:00Z`) + (from + i) * 60_000)
const slotOf = ({ slot }: State): string | null =>
  slot === null ? null : new Date(Number(slot)).toISOString().slice(11, 16)

/** A node that has announced a schedule of each minute at 00:00:30, and holds the lease. */
async function nodeWith(definition: object = {}, name = 's'): Promise<Node> {
  await stage.setClock(`${day}00:00:30Z`)
  const node = new Node(stage, name)
  await node.announce(definition)
  await node.lease()
  return node
}

describe('a slot', () => {
  test('is started once, and only when its time has come by the server’s clock', async () => {
    const node = await nodeWith()
    expect(slotOf(await node.take(minutes(1, 1)))).toBeNull()
    await stage.setClock(`${day}00:01:00Z`)
    const started = await node.take(minutes(1, 3))
    expect([slotOf(started), started.attempt, started.open]).toEqual(['00:01', 1, true])
    expect(await node.end(started)).toBe(true)
    const again = await node.take(minutes(1, 1))
    expect([slotOf(again), again.open]).toEqual([null, false])
    expect(await stage.states('s')).toEqual(['00:01 finished'])
  })

  test('from before the schedule was there is none', async () => {
    const node = await nodeWith()
    expect(slotOf(await node.take(minutes(-5, 0)))).toBeNull()
    expect(await stage.ticks('s')).toEqual([])
  })

  test('is not started again when the server’s clock goes back', async () => {
    const node = await nodeWith()
    await stage.setClock(`${day}00:02:00Z`)
    await node.end(await node.take(minutes(1, 2)))
    await stage.setClock(`${day}00:00:59Z`)
    expect(slotOf(await node.take(minutes(1, 2)))).toBeNull()
    await stage.setClock(`${day}00:02:01Z`)
    expect(slotOf(await node.take(minutes(1, 2)))).toBeNull()
    expect(await stage.states('s')).toEqual(['00:01 missed', '00:02 finished'])
  })

  test('whose start was not answered is the answer again, and is one attempt', async () => {
    const node = await nodeWith()
    await stage.setClock(`${day}00:01:00Z`)
    await node.take(minutes(1, 1))
    const again = await node.take(minutes(1, 1))
    expect([slotOf(again), again.attempt]).toEqual(['00:01', 1])
  })

  test('the end of which was not answered can be ended again, in the same way alone', async () => {
    const node = await nodeWith()
    await stage.setClock(`${day}00:01:00Z`)
    const started = await node.take(minutes(1, 1))
    expect([await node.end(started), await node.end(started), await node.end(started, 'no')]).toEqual([
      true,
      true,
      false,
    ])
    expect(await stage.states('s')).toEqual(['00:01 finished'])
  })

  test('by another edition of the definition is not recorded', async () => {
    const node = await nodeWith()
    node.edition = 2
    await stage.setClock(`${day}00:01:00Z`)
    const state = await node.take(minutes(1, 1))
    expect([state.slot, state.edition]).toEqual([null, 1])
    expect(await stage.ticks('s')).toEqual([])
  })
})

describe('who has no lease', () => {
  const refused = { code: 'FP003' }

  test('starts, records and ends nothing: released, or never had', async () => {
    const node = await nodeWith()
    await stage.setClock(`${day}00:01:00Z`)
    const started = await node.take(minutes(1, 1))
    await node.release()
    await expect(node.end(started)).rejects.toMatchObject(refused)
    await expect(node.take(minutes(1, 1))).rejects.toMatchObject(refused)
    expect(await stage.states('s')).toEqual(['00:01 started'])
  })

  test('as a zombie, whose tick another has taken over', async () => {
    const zombie = await nodeWith({ attempts: 2 })
    await stage.setClock(`${day}00:01:00Z`)
    const started = await zombie.take(minutes(1, 1))
    await zombie.die()
    const next = new Node(stage, 's')
    await next.lease()
    const taken = await next.take([])
    expect([slotOf(taken), taken.attempt]).toEqual(['00:01', 2])
    await expect(zombie.end(started)).rejects.toMatchObject(refused)
    expect(await next.end(taken)).toBe(true)
  })

  test('a lease of another schedule is none', async () => {
    const [one, other] = [await nodeWith({}, 'one'), await nodeWith({}, 'other')]
    one.lock = other.lock
    await expect(one.take([])).rejects.toMatchObject(refused)
  })

  test('and of a schedule that nobody has announced nothing is taken', async () => {
    const node = new Node(stage, 'unknown')
    await node.lease()
    await expect(node.take([])).rejects.toMatchObject({ code: 'FP011' })
  })
})

describe('missed', () => {
  test.each([
    ['skip', ['00:01 missed', '00:02 missed', '00:03 missed'], null],
    ['once', ['00:01 missed', '00:02 missed', '00:03 started'], '00:03'],
    ['all', ['00:01 started', '00:02 due', '00:03 due'], '00:01'],
  ])('%s, where nobody was there in time', async (missed, states, begins) => {
    const node = await nodeWith({ missed })
    await stage.setClock(`${day}00:04:01Z`)
    expect(slotOf(await node.take(minutes(1, 3)))).toBe(begins)
    expect(await stage.states('s')).toEqual(states)
  })

  test.each(['skip', 'once'])(
    '%s, where the last one is not late: it runs, the others are missed',
    async missed => {
      const node = await nodeWith({ missed })
      await stage.setClock(`${day}00:03:59Z`)
      expect(slotOf(await node.take(minutes(1, 3)))).toBe('00:03')
      expect(await stage.states('s')).toEqual(['00:01 missed', '00:02 missed', '00:03 started'])
    },
  )

  test('how late it may be is `startWithin`, and the jitter comes on top', async () => {
    const node = await nodeWith({ startWithin: 5_000, jitter: 2_000 })
    await stage.setClock(`${day}00:01:08Z`)
    expect(slotOf(await node.take(minutes(1, 1)))).toBeNull()
    await stage.setClock(`${day}00:02:06Z`)
    expect(slotOf(await node.take(minutes(2, 2)))).toBe('00:02')
  })

  test('all, one after the other, at most 24: the latest', async () => {
    const node = await nodeWith({ missed: 'all' })
    await stage.setClock(`${day}01:00:59Z`)
    const ran: (string | null)[] = []
    let started = await node.take(minutes(1, 60))
    while (started.slot !== null) {
      ran.push(slotOf(started))
      await node.end(started)
      started = await node.take([])
    }
    expect(ran).toHaveLength(24)
    expect([ran[0], ran.at(-1)]).toEqual(['00:37', '01:00'])
    const states = await stage.states('s')
    expect([states.length, states.filter(each => each.endsWith('missed')).length]).toEqual([60, 36])
  })

  test('all, at most as many as is said', async () => {
    const node = await nodeWith({ missed: 'all', missedLimit: 2 })
    await stage.setClock(`${day}00:05:30Z`)
    await node.take(minutes(1, 2), { followed: true })
    await node.take(minutes(3, 5))
    expect(await stage.states('s')).toEqual([
      '00:01 missed',
      '00:02 missed',
      '00:03 missed',
      '00:04 started',
      '00:05 due',
    ])
  })
})

describe('overlap', () => {
  test('skip: what comes while one runs is skipped, when it comes', async () => {
    const node = await nodeWith()
    await stage.setClock(`${day}00:01:00Z`)
    const started = await node.take(minutes(1, 1))
    await stage.setClock(`${day}00:02:00Z`)
    await node.take(minutes(2, 2), { starts: false })
    expect(await stage.states('s')).toEqual(['00:01 started', '00:02 skipped'])
    await node.end(started)
    expect((await node.take([])).slot).toBeNull()
  })

  test('skip: also where it was not recorded before that had ended', async () => {
    const node = await nodeWith({ missed: 'all' })
    await stage.setClock(`${day}00:01:00Z`)
    const started = await node.take(minutes(1, 1))
    await stage.setClock(`${day}00:03:10Z`)
    await node.end(started)
    await stage.setClock(`${day}00:04:00Z`)
    expect(slotOf(await node.take(minutes(2, 4)))).toBe('00:04')
    expect(await stage.states('s')).toEqual([
      '00:01 finished',
      '00:02 skipped',
      '00:03 skipped',
      '00:04 started',
    ])
  })

  test('skip: while a work goes on that was given up, the lease is kept and what comes is skipped', async () => {
    const node = await nodeWith()
    await stage.setClock(`${day}00:01:00Z`)
    await node.end(await node.take(minutes(1, 1)), 'timed out')
    await stage.setClock(`${day}00:02:00Z`)
    await node.take(minutes(2, 2), { starts: false })
    expect(await stage.states('s')).toEqual(['00:01 failed', '00:02 skipped'])
  })

  test('queue: what comes while one runs is due, and runs in order', async () => {
    const node = await nodeWith({ overlap: 'queue' })
    await stage.setClock(`${day}00:01:00Z`)
    let started = await node.take(minutes(1, 1))
    for (const minute of [2, 3]) {
      await stage.setClock(at(`${day}00:00:00Z`) + minute * 60_000)
      await node.take(minutes(minute, minute), { starts: false })
    }
    expect(await stage.states('s')).toEqual(['00:01 started', '00:02 due', '00:03 due'])
    const ran: (string | null)[] = []
    for (; started.slot !== null; started = await node.take([])) {
      ran.push(slotOf(started))
      await node.end(started)
    }
    expect(ran).toEqual(['00:01', '00:02', '00:03'])
  })

  test('queue: at most as many wait as may be missed; the rest is missed', async () => {
    const node = await nodeWith({ overlap: 'queue', missedLimit: 2 })
    await stage.setClock(`${day}00:01:00Z`)
    await node.take(minutes(1, 1))
    for (const minute of [2, 3, 4]) {
      await stage.setClock(at(`${day}00:00:00Z`) + minute * 60_000)
      await node.take(minutes(minute, minute), { starts: false })
    }
    expect(await stage.states('s')).toEqual(['00:01 started', '00:02 due', '00:03 due', '00:04 missed'])
  })
})

describe('a tick whose runner is lost', () => {
  test('has failed, and is not started again, unless `retry` says so', async () => {
    const node = await nodeWith()
    await stage.setClock(`${day}00:01:00Z`)
    await node.take(minutes(1, 1))
    await node.die()
    const next = new Node(stage, 's')
    expect((await next.look()).open).toBe(true)
    await next.lease()
    expect((await next.take([])).slot).toBeNull()
    expect(await stage.ticks('s')).toMatchObject([
      { state: 'failed', attempt: 1, error: 'its runner was lost' },
    ])
  })

  test('is started again, as often as `retry` says, and no more', async () => {
    let node = await nodeWith({ attempts: 3 })
    await stage.setClock(`${day}00:01:00Z`)
    const attempts: (number | null)[] = []
    for (let death = 0; death < 5; death++) {
      attempts.push((await node.take(minutes(1, 1))).attempt)
      await node.die()
      node = new Node(stage, 's')
      await node.lease()
    }
    expect(attempts).toEqual([1, 2, 3, null, null])
    expect(await stage.states('s')).toEqual(['00:01 failed'])
  })

  test('does not keep the next one from running, which came meanwhile', async () => {
    const node = await nodeWith()
    await stage.setClock(`${day}00:01:00Z`)
    await node.take(minutes(1, 1))
    await node.die()
    await stage.setClock(`${day}00:02:10Z`)
    const next = new Node(stage, 's')
    await next.lease()
    expect(slotOf(await next.take(minutes(2, 2)))).toBe('00:02')
    expect(await stage.states('s')).toEqual(['00:01 failed', '00:02 started'])
  })

  test('a failure is tried again as well: due, under the lease of whoever comes next', async () => {
    const node = await nodeWith({ attempts: 2 })
    await stage.setClock(`${day}00:01:00Z`)
    await node.end(await node.take(minutes(1, 1)), 'no')
    expect(await stage.ticks('s')).toMatchObject([{ state: 'due', attempt: 1, error: 'no' }])
    await node.release()
    const next = new Node(stage, 's')
    await next.lease()
    const started = await next.take([])
    expect([slotOf(started), started.attempt]).toEqual(['00:01', 2])
    await next.end(started, 'again')
    expect(await stage.ticks('s')).toMatchObject([{ state: 'failed', attempt: 2, error: 'again' }])
  })
})

describe('rows', () => {
  test('are deleted after the retention, a thousand a call, but not what is open; and are not started again', async () => {
    const node = await nodeWith({ retention: 3_600_000 })
    await stage.setClock(`${day}20:00:00Z`)
    const old = minutes(1, 1_199)
    await node.take(old, { followed: true })
    expect(await stage.states('s')).toHaveLength(199)
    const started = await node.take(minutes(1_200, 1_200))
    expect((await stage.ticks('s'))[0]?.slot).toBe('2025-06-01T19:01:00Z')
    await stage.setClock('2025-06-03T00:00:00Z')
    await node.take([], { starts: false })
    expect(await stage.states('s')).toEqual(['20:00 started'])
    await node.end(started)
    await node.take([...old, ...minutes(1_200, 1_200)])
    expect(await stage.states('s')).toEqual([])
  })

  test('of a schedule that nobody has announced for 90 days are forgotten, by the next announcement of any', async () => {
    const node = await nodeWith()
    await stage.setClock(`${day}00:01:00Z`)
    await node.end(await node.take(minutes(1, 1)))
    await node.release()
    await stage.setClock('2025-08-01T00:00:00Z')
    await new Node(stage, 'other').announce({})
    expect((await node.look()).edition).toBe(1)
    await stage.setClock('2025-09-15T00:00:00Z')
    await new Node(stage, 'other').announce({})
    expect(await node.look()).toBeUndefined()
    expect(await stage.ticks('s')).toEqual([])
  })

  // Regression: who announced it then was answered nothing, and was a node of a schedule that there was not.
  test('of one that is announced while it is forgotten are there again: it begins anew', async () => {
    const node = await nodeWith()
    await stage.setClock('2025-12-01T00:00:00Z')
    const forgetting = await stage.db.pool({ max: 1 }).connect()
    try {
      // What an announcement of another schedule does, stopped after it has found this one.
      await forgetting.query('begin')
      await forgetting.query(`select from ${stage.sql('schedules')} where name = 's' for update`)
      const announced = node.announce({})
      await until(async () => {
        const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
        return (await stage.db.query(waiting)).length > 0
      })
      await forgetting.query(`delete from ${stage.sql('schedules')} where name = 's'`)
      await forgetting.query(`delete from ${stage.sql('schedule_nodes')} where name = 's'`)
      await forgetting.query('commit')
      expect(await announced).toMatchObject({ edition: 1, open: false, drifts: false })
    } finally {
      forgetting.release(true)
    }
  })
})
