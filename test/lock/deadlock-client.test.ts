import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { DeadlockError, Fencepost, type Lock } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { expectNothingLeft } from '../support/leftovers.ts'
import { until } from '../support/until.ts'

let db: TestDatabase
let clients: Fencepost[]
/** Those who are no task of a ring, and part of it. */
let behind: Promise<unknown>[]
beforeEach(async () => {
  db = await createDatabase()
  clients = []
  behind = []
})
afterEach(async () => {
  await Promise.all(clients.map(client => client.close()))
  await expectNothingLeft(db.pool(), db.schema)
  await db.drop()
})

function client(owner: string): Fencepost {
  const made = new Fencepost({ pool: db.twistedUrl, schema: db.schema, owner, poll: '200ms' })
  clients.push(made)
  return made
}

/** Holds, waits until everybody does, then asks for more. */
class Gate {
  #open: () => void = () => {}
  readonly #all: Promise<void>
  #left: number
  constructor(parties: number) {
    this.#left = parties
    this.#all = new Promise(resolve => {
      this.#open = resolve
    })
  }
  async pass(): Promise<void> {
    this.#left -= 1
    if (this.#left === 0) this.#open()
    await this.#all
  }
}

const outcomeOf = (settled: PromiseSettledResult<unknown>) =>
  settled.status === 'fulfilled'
    ? 'done'
    : settled.reason instanceof DeadlockError
      ? 'deadlock'
      : settled.reason

/** One place of a ring: what its task holds, what the one before it asks for, and what that waits for, as the circle tells. */
interface Place {
  hold(fp: Fencepost, work: () => Promise<void>, other: Fencepost): Promise<void>
  ask(fp: Fencepost): Promise<void>
  readonly steps: readonly string[]
}

const places = {
  'exclusive locks': key => ({
    hold: (fp, work) => fp.withLock(key, work),
    ask: fp => fp.withLock(key, () => {}),
    steps: [key],
  }),
  'shared locks': key => ({
    hold: (fp, work) => fp.withLock(key, { mode: 'shared' }, work),
    ask: fp => fp.withLock(key, () => {}),
    steps: [key],
  }),
  'locks that are read after all': key => ({
    hold: (fp, work) => fp.withLock(key, work),
    ask: fp => fp.withLock(key, { mode: 'shared' }, () => {}),
    steps: [key],
  }),
  permits: key => ({
    hold: (fp, work) => fp.semaphore(key, { permits: 3 }).withPermits({ permits: 2 }, work),
    ask: fp => fp.semaphore(key, { permits: 3 }).withPermits({ permits: 2 }, () => {}),
    steps: [key],
  }),
  // Nobody holds what is asked for: one that wants that, and what is held, stands before.
  'the queue itself': key => ({
    hold: (fp, work, other) =>
      fp.withLock(key, async () => {
        const wide = other.acquire([key, `${key} and`])
        await until(async () => (await other.query({ key: `${key} and` })).pending.length === 1)
        behind.push(wide.then(lock => lock.release()))
        await work()
      }),
    ask: fp => fp.withLock(`${key} and`, () => {}),
    steps: [`${key} and`, key],
  }),
} satisfies Record<string, (key: string) => Place>

describe.each(Object.entries(places))('a circle through %s is told to one of it', (_, placeOf) => {
  test.each([2, 3, 10])('of %i, at the same moment, each in a process of its own', async size => {
    const [gate, other] = [new Gate(size), client('other')]
    const ring = Array.from({ length: size }, (_, i) => placeOf(`key ${i}`))
    const tasks = ring.map((place, i) => {
      const fp = client(`task ${i}`)
      return place.hold(
        fp,
        async () => {
          await gate.pass()
          await ring[(i + 1) % size]?.ask(fp)
        },
        other,
      )
    })
    const settled = await Promise.allSettled(tasks)
    expect(settled.map(outcomeOf).sort()).toEqual(['deadlock', ...Array(size - 1).fill('done')])
    await Promise.all(behind)
    const failed = settled.find(each => each.status === 'rejected') as PromiseRejectedResult
    const error = failed.reason as DeadlockError
    const victim = settled.indexOf(failed)
    const around = Array.from({ length: size }, (_, i) => (victim + i) % size)
    const steps = around.map(i => (ring[(i + 1) % size] as Place).steps)
    expect(error.key).toBe(steps[0]?.[0])
    expect(error.cycle.map(({ key }) => key)).toEqual(steps.flat())
    expect(
      error.cycle.filter(({ key }) => steps.some(([first]) => first === key)).map(({ owner }) => owner),
    ).toEqual(around.map(i => `task ${i}`))
    expect(error.cycle.map(({ isOurs }) => isOurs)).toEqual(steps.flat().map((_, i) => i === 0))
    expect(error.message).toContain(`this task waits for "${error.key}"`)
  })
})

describe('a circle is told to one of it, and the others get on', () => {
  test('in one process, too', async () => {
    const fp = client('one')
    const gate = new Gate(2)
    const task = (first: string, second: string) =>
      fp.withLock(first, async () => {
        await gate.pass()
        await fp.withLock(second, () => {})
      })
    const settled = await Promise.allSettled([task('a', 'b'), task('b', 'a')])
    expect(settled.map(outcomeOf).sort()).toEqual(['deadlock', 'done'])
  })

  test('through permits, once all who have some are stuck', async () => {
    const gate = new Gate(3)
    const holder = (owner: string) => {
      const fp = client(owner)
      return fp.semaphore('pool', { permits: 2 }).withPermits(async () => {
        await gate.pass()
        await fp.withLock('a', () => {})
      })
    }
    const fp = client('writer')
    const writer = fp.withLock('a', async () => {
      await gate.pass()
      await fp.semaphore('pool', { permits: 2 }).withPermits(() => {})
    })
    const settled = await Promise.allSettled([holder('1'), holder('2'), writer])
    expect(settled.map(outcomeOf)).toContain('deadlock')
    // Whoever came last gives up: the writer, or as many holders as it takes to let it through.
    expect(settled.map(outcomeOf).every(outcome => outcome === 'done' || outcome === 'deadlock')).toBe(true)
    expect(settled.map(outcomeOf)).toContain('done')
  })

  // Regression: a reader behind a writer that no section waits for was taken to wait for nobody.
  test('through a writer that is part of no section, and stands between two readers', async () => {
    const [one, two, other] = [client('1'), client('2'), client('other')]
    const gate = new Gate(3)
    const reader = one.withLock('a', { mode: 'shared' }, async () => {
      await gate.pass()
      await one.withLock('b', () => {})
    })
    const late = two.withLock('b', async () => {
      await gate.pass()
      await two.withLock('a', { mode: 'shared' }, () => {})
    })
    await until(async () => (await other.query({ key: 'a' })).held.length === 1)
    const writer = other.withLock('a', () => {})
    await until(async () => (await other.query({ key: 'a' })).pending.length === 1)
    await gate.pass()
    const settled = await Promise.allSettled([reader, late, writer])
    expect(settled.map(outcomeOf).sort()).toEqual(['deadlock', 'done', 'done'])
    expect(settled.map(outcomeOf)[2]).toBe('done')
  })

  test('through the queue: one that wants several keys stands before who holds one of them', async () => {
    const [holder, other] = [client('holder'), client('other')]
    const y = await other.acquire('y')
    let wide: Promise<Lock> | undefined
    const task = holder.withLock('x', async () => {
      wide = other.acquire(['x', 'y'])
      await until(async () => (await other.query({ key: 'y' })).pending.length === 1)
      await holder.withLock('y', () => {})
    })
    const [outcome] = await Promise.allSettled([task])
    expect(outcomeOf(outcome as PromiseSettledResult<void>)).toBe('deadlock')
    await y.release()
    await (await (wide as Promise<Lock>)).release()
  })
})

describe('no alarm', () => {
  test('where two tasks of a process hold and wait, and neither does both', async () => {
    const [one, two] = [client('one'), client('two')]
    const finish = new Gate(2)
    // Task A holds x; task B of the same process waits for y. The other process holds y and waits for x.
    const a = one.withLock('x', () => finish.pass())
    await until(async () => (await two.query({ key: 'x' })).held.length === 1)
    const c = two.withLock('y', async () => {
      await two.withLock('x', () => {})
    })
    await until(async () => (await two.query({ key: 'x' })).pending.length === 1)
    const b = one.withLock('z', async () => {
      await one.withLock('y', () => {})
    })
    await until(async () => (await two.query({ key: 'y' })).pending.length === 1)
    // Looks have been made since, of both who could be told.
    const looked = one.metrics().batches.tick.count
    await until(() => one.metrics().batches.tick.count > looked + 1)
    await finish.pass()
    expect(await Promise.all([a, b, c])).toEqual([undefined, undefined, undefined])
  })

  test('where siblings under one lock wait for each other’s', async () => {
    const fp = client('one')
    let running = 0
    await fp.withLock('outer', async () => {
      await Promise.all(
        [1, 2, 3].map(() =>
          fp.withLock('inner', async () => {
            running += 1
            expect(running).toBe(1)
            await new Promise(resolve => setImmediate(resolve))
            running -= 1
          }),
        ),
      )
    })
  })

  test('where the key is passed on inside the process, and who had it first goes on to wait', async () => {
    const [one, two] = [client('one'), client('two')]
    const blocker = await two.acquire('hot')
    const sections = Array.from({ length: 8 }, (_, i) =>
      one.withLock(`own ${i}`, async () => {
        await one.withLock('hot', () => {})
        await one.withLock('cold', () => {})
      }),
    )
    await until(async () => (await two.query({ key: 'hot' })).pending.length === 8)
    await blocker.release()
    await Promise.all(sections)
  })
})
