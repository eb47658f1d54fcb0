import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { DeadlockError, Fencepost, type Lock } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { expectNothingLeft } from '../support/leftovers.ts'
import { until } from '../support/until.ts'

let db: TestDatabase
let clients: Fencepost[]
beforeEach(async () => {
  db = await createDatabase()
  clients = []
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

describe('a circle is told to one of it, and the others get on', () => {
  test.each([2, 3, 10])('of %i, at the same moment, each in a process of its own', async size => {
    const gate = new Gate(size)
    const tasks = Array.from({ length: size }, (_, i) => {
      const fp = client(`task ${i}`)
      return fp.withLock(`key ${i}`, async () => {
        await gate.pass()
        await fp.withLock(`key ${(i + 1) % size}`, () => {})
      })
    })
    const settled = await Promise.allSettled(tasks)
    expect(settled.map(outcomeOf).sort()).toEqual(['deadlock', ...Array(size - 1).fill('done')])
    const failed = settled.find(each => each.status === 'rejected') as PromiseRejectedResult
    const error = failed.reason as DeadlockError
    const victim = settled.indexOf(failed)
    expect(error.key).toBe(`key ${(victim + 1) % size}`)
    expect(error.cycle.map(({ key }) => key)).toEqual(
      Array.from({ length: size }, (_, i) => `key ${(victim + 1 + i) % size}`),
    )
    expect(error.cycle.map(({ owner }) => owner)).toEqual(
      Array.from({ length: size }, (_, i) => `task ${(victim + i) % size}`),
    )
    expect(error.message).toContain(`this task waits for "key ${(victim + 1) % size}"`)
  })

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

  test('through shared locks: both read, and each wants to write what the other reads', async () => {
    const gate = new Gate(2)
    const task = (owner: string, first: string, second: string) => {
      const fp = client(owner)
      return fp.withLock(first, { mode: 'shared' }, async () => {
        await gate.pass()
        await fp.withLock(second, () => {})
      })
    }
    const settled = await Promise.allSettled([task('1', 'a', 'b'), task('2', 'b', 'a')])
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
