import { describe, expect, test } from 'vitest'
import { isLinearizable, type Operation } from './linear.ts'

const operation = (
  kind: Operation['kind'],
  token: number,
  from: number,
  until = Number.POSITIVE_INFINITY,
): Operation => ({
  kind,
  token: BigInt(token),
  from,
  until,
})

/** Takes turns: each of `n` holds it once, all having asked at the start. */
const turns = (n: number): Operation[] =>
  Array.from({ length: n }, (_, i) => [
    operation('take', i + 1, 0, i * 10 + 5),
    operation('ask', i + 1, i * 10 + 6, i * 10 + 7),
    operation('give', i + 1, i * 10 + 8),
  ]).flat()

describe('a history of one lock', () => {
  test.each([
    { name: 'nothing', operations: [] },
    { name: 'turns', operations: turns(50) },
    { name: 'a grant that never ended', operations: [operation('take', 1, 0, 5), operation('give', 1, 5)] },
    {
      name: 'a take answered before the give was asked for, which came first all the same',
      operations: [
        operation('take', 1, 0, 5),
        operation('give', 1, 6),
        operation('take', 2, 4, 20),
        operation('give', 2, 20),
      ],
    },
  ])('is $name', ({ operations }) => expect(isLinearizable(operations)).toBe(true))

  test.each([
    { name: 'two holders', operations: [operation('take', 1, 0, 5), operation('take', 2, 6, 9)] },
    {
      name: 'a token that falls',
      operations: [operation('take', 2, 0, 5), operation('give', 2, 6), operation('take', 1, 7, 9)],
    },
    {
      name: 'a holder that says so after the next take',
      operations: [
        operation('take', 1, 0, 5),
        operation('give', 1, 6),
        operation('take', 2, 7, 9),
        operation('ask', 1, 10, 11),
      ],
    },
  ])('is not $name', ({ operations }) => expect(isLinearizable(operations)).toBe(false))

  test('thousands of operations take less than a second', () => {
    const began = performance.now()
    expect(isLinearizable(Array.from({ length: 200 }, (_, i) => shifted(turns(8), i)).flat())).toBe(true)
    expect(performance.now() - began).toBeLessThan(1_000)
  })

  test('is left undecided where too much is unknown', () => {
    // Any of them may have happened at any time or never, and the last ones never.
    const open = Array.from({ length: 40 }, (_, i) => [
      operation('take', i + 1, 0),
      operation('give', i + 1, 0),
    ]).flat()
    const never = [operation('take', 100, 0, 5), operation('take', 99, 6, 7), operation('ask', 100, 8, 9)]
    expect(isLinearizable([...open, ...never], 2_000)).toBeUndefined()
  })
})

const shifted = (operations: Operation[], round: number): Operation[] =>
  operations.map(({ kind, token, from, until }) => ({
    kind,
    token: token + BigInt(round * 8),
    from: from + round * 1_000,
    until: until + round * 1_000,
  }))
