import fc from 'fast-check'
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

  test('is found with nothing left out, however much is unknown', () => {
    // Any of them may have happened at any time or never, and the last ones never.
    const open = Array.from({ length: 4_000 }, (_, i) => [
      operation('take', i + 1, 0),
      operation('give', i + 1, 0),
    ]).flat()
    const taken = [operation('take', 10_000, 0, 5), operation('give', 10_000, 0)]
    const never = [operation('take', 9_999, 6, 7), operation('ask', 10_000, 8, 9)]
    expect(isLinearizable([...open, ...taken])).toBe(true)
    expect(isLinearizable([...open, ...taken, ...never])).toBe(false)
  })

  test('is what trying every order says', () => {
    let linear = 0
    fc.assert(
      fc.property(fc.array(anOperation, { maxLength: 7 }), operations => {
        const verdict = isLinearizable(operations)
        if (verdict && operations.length > 3) linear += 1
        expect(verdict).toBe(search(operations, { holder: 0, highest: 0 }, Number.NEGATIVE_INFINITY))
      }),
      { numRuns: 4_000 },
    )
    expect(linear).toBeGreaterThan(100)
  })
})

const anOperation = fc
  .tuple(
    fc.constantFrom('take', 'take', 'give', 'ask'),
    fc.integer({ min: 1, max: 3 }),
    fc.integer({ min: 0, max: 9 }),
    fc.oneof(fc.integer({ min: 0, max: 6 }), fc.constant(Number.POSITIVE_INFINITY)),
  )
  .map(([kind, token, from, length]) => operation(kind as Operation['kind'], token, from, from + length))

/** Whether what is left can follow, each at its earliest: every order is tried. */
function search(
  left: readonly Operation[],
  state: { holder: number; highest: number },
  now: number,
): boolean {
  if (left.every(({ until }) => until === Number.POSITIVE_INFINITY)) return true
  return left.some((next, i) => {
    const then = Math.max(now, next.from)
    const token = Number(next.token)
    const rest = left.filter((_, at) => at !== i)
    if (then > next.until) return false
    if (next.kind === 'take')
      return (
        state.holder === 0 && token > state.highest && search(rest, { holder: token, highest: token }, then)
      )
    if (state.holder !== token) return false
    return search(rest, next.kind === 'give' ? { ...state, holder: 0 } : state, then)
  })
}
