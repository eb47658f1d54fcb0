import { randomInt } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Wait } from '../../src/database/answers.ts'
import { deadlockOf } from '../../src/lock/deadlock.ts'

// What `waits_for` answers, judged: nodes are numbers, 0 the request that asks; even ones are in line, odd ones hold.

const inLine = (
  waiter: number,
  key: string,
  blocker: number,
  ticket = waiter,
  isAlternative = false,
): Wait => ({
  waiter,
  ticket: BigInt(ticket),
  key,
  owner: `task ${waiter}`,
  blocker,
  isAlternative,
})
const section = (waiter: number, blocker: number): Wait => ({
  waiter,
  ticket: undefined,
  key: undefined,
  owner: null,
  blocker,
  isAlternative: false,
})

/** Tasks that wait for each other in a ring, the one that asks last in line. */
function ring(size: number): Wait[] {
  return Array.from({ length: size }, (_, i) => [
    inLine(2 * i, `key ${i}`, (2 * i + 3) % (2 * size), i === 0 ? 10_000 : i),
    section(2 * i + 1, 2 * i),
  ]).flat()
}

describe('a circle', () => {
  test.each([1, 2, 3, 10])('of %i is told in order, from the one that asks', size => {
    const cycle = deadlockOf(ring(size))
    expect(cycle?.map(({ key }) => key)).toEqual(Array.from({ length: size }, (_, i) => `key ${i}`))
    expect(cycle?.map(({ isOurs }) => isOurs)).toEqual(Array.from({ length: size }, (_, i) => i === 0))
  })

  test('is the youngest’s to give up, and nobody else’s', () => {
    const waits = ring(3).map(wait => (wait.waiter === 2 ? { ...wait, ticket: 20_000n } : wait))
    expect(deadlockOf(waits)).toBeUndefined()
    expect(deadlockOf(ring(3))).toHaveLength(3)
  })

  test('elsewhere, which the one that asks only waits for, is not its own', () => {
    const waits = [
      inLine(0, 'a', 3, 10_000),
      inLine(2, 'b', 5, 1),
      section(3, 2),
      inLine(4, 'a', 3, 2),
      section(5, 4),
    ]
    expect(deadlockOf(waits)).toBeUndefined()
  })

  test('through one of two things that a section waits for', () => {
    const waits = [
      inLine(0, 'a', 3, 10_000),
      section(3, 4),
      section(3, 6),
      inLine(4, 'b', 9, 1),
      inLine(6, 'c', 1, 2),
      section(1, 0),
    ]
    expect(deadlockOf(waits)?.map(({ key }) => key)).toEqual(['a', 'c'])
  })
})

describe('permits', () => {
  const two = (last: Wait[]) =>
    deadlockOf([
      inLine(0, 's', 3, 10_000, true),
      inLine(0, 's', 5, 10_000, true),
      section(3, 4),
      inLine(4, 'a', 1, 1),
      section(1, 0),
      ...last,
    ])

  test('are waited for in a circle when all who have some are stuck', () => {
    expect(two([section(5, 6), inLine(6, 'b', 1, 2)])).toBeDefined()
  })

  test('are not, while one who has some is free', () => {
    expect(two([])).toBeUndefined()
    expect(two([section(5, 6), inLine(6, 'b', 7, 2)])).toBeUndefined()
  })
})

test('nobody is stuck who waits for somebody free', () => {
  expect(deadlockOf([])).toBeUndefined()
  expect(deadlockOf([inLine(0, 'a', 1)])).toBeUndefined()
  expect(deadlockOf([inLine(0, 'a', 3), section(3, 4), inLine(4, 'b', 5)])).toBeUndefined()
})

/** Task i waits only for what later ones hold, and for tickets of later ones: whatever else is true of it, there is no circle. */
function acyclic(tasks: number): Wait[] {
  const waits: Wait[] = []
  for (let task = 0; task < tasks - 1; task += 1) {
    const several = randomInt(4) === 0
    for (let n = randomInt(1, 4); n > 0; n -= 1) {
      const other = randomInt(task + 1, tasks)
      const isHolder = several || randomInt(3) > 0
      waits.push(inLine(2 * task, `k${other}`, 2 * other + (isHolder ? 1 : 0), randomInt(1_000_000), several))
    }
    waits.push(section(2 * task + 1, 2 * task))
    // Two tasks of one process hold next to each other, and know nothing of each other.
    if (randomInt(3) === 0) waits.push(section(2 * task + 1, 2 * randomInt(task, tasks)))
  }
  return waits
}

test('a million waits without a circle: no alarm', () => {
  let seen = 0
  while (seen < 1_000_000) {
    const waits = acyclic(randomInt(2, 60))
    seen += waits.length
    expect(deadlockOf(waits)).toBeUndefined()
  }
})

test('who is told is stuck for good and the youngest of its circle, and nobody else is told', () => {
  const wait = fc.record({ waiter: fc.nat(7), blocker: fc.nat(7), isAlternative: fc.boolean() })
  const pictures = fc.tuple(fc.array(wait, { maxLength: 16 }), fc.shuffledSubarray(nodes, { minLength: 8 }))
  const told = new Map<number, number>()
  fc.assert(
    fc.property(pictures, ([edges, tickets]) => {
      const waits = edges.map(({ waiter, blocker, isAlternative }) =>
        inLine(waiter, `${waiter} ${blocker}`, blocker, tickets[waiter], isAlternative),
      )
      const reached = reachedOf(waits)
      const around = nodes.filter(node => reached[0]?.has(node) && reached[node]?.has(0))
      const isYoungest = around.every(node => (tickets[node] as number) <= (tickets[0] as number))
      const cycle = deadlockOf(waits)
      expect(cycle !== undefined).toBe(around.length > 0 && isYoungest)
      if (!cycle) return
      const steps = cycle.map(({ key }) => key.split(' ').map(Number) as [number, number])
      expect(steps.map(([, blocker]) => blocker)).toEqual([...steps.slice(1).map(([waiter]) => waiter), 0])
      expect(steps[0]?.[0]).toBe(0)
      expect(around).toEqual(expect.arrayContaining(steps.flat()))
      told.set(steps.length, (told.get(steps.length) ?? 0) + 1)
    }),
    { numRuns: 3_000 },
  )
  for (const length of [1, 2, 3]) expect(told.get(length), `circles of ${length}`).toBeGreaterThan(5)
})

const nodes = [0, 1, 2, 3, 4, 5, 6, 7]

/** The nodes that each node comes to by waits that keep it stuck, by the definition. */
function reachedOf(waits: readonly Wait[]): Set<number>[] {
  const stuck = stuckOf(waits)
  const next = nodes.map(node => {
    const mine = waits.filter(({ waiter }) => waiter === node)
    const any = mine.filter(({ isAlternative }) => isAlternative)
    const isFree = any.some(({ blocker }) => !stuck.has(blocker))
    const all = mine.filter(({ blocker, isAlternative }) => stuck.has(blocker) && !(isAlternative && isFree))
    return new Set(stuck.has(node) ? all.map(({ blocker }) => blocker) : [])
  })
  for (const through of nodes) {
    for (const from of next) if (from.has(through)) for (const to of next[through] ?? []) from.add(to)
  }
  return next
}

/** The largest set of which each waits for one in it, or for alternatives that are all in it. */
function stuckOf(waits: readonly Wait[]): Set<number> {
  const stuck = new Set(waits.map(({ waiter }) => waiter))
  const isKept = (node: number) => {
    const mine = waits.filter(({ waiter }) => waiter === node)
    const any = mine.filter(({ isAlternative }) => isAlternative)
    return (
      mine.some(({ isAlternative, blocker }) => !isAlternative && stuck.has(blocker)) ||
      (any.length > 0 && any.every(({ blocker }) => stuck.has(blocker)))
    )
  }
  for (let size = -1; size !== stuck.size; ) {
    size = stuck.size
    for (const node of [...stuck]) if (!isKept(node)) stuck.delete(node)
  }
  return stuck
}
