// Whose turn it is in a run, and what a late answer changes: nothing.
import { expect, test } from 'vitest'
import { AbortedError } from '../../src/index.ts'
import { Request } from '../../src/lock/request.ts'
import { Run } from '../../src/lock/run.ts'

const request = () =>
  new Request(
    {
      key: 'k',
      keys: undefined,
      mode: 'exclusive',
      permits: undefined,
      capacity: undefined,
      lockDelay: undefined,
      label: undefined,
      metadata: undefined,
      ttl: 30_000,
      waits: true,
      orNull: false,
      timeout: undefined,
      signal: undefined,
    },
    { onGivenUp: () => {}, onDone: () => {} },
  )

test('turns come in the order of the tokens, and those that gave up are passed over', () => {
  const run = new Run('9')
  const [one, two, three] = [request(), request(), request()]
  for (const [i, each] of [one, two, three].entries()) expect(run.add(each, String(10 + i))).toBe(true)
  two.promise.catch(() => {})
  two.giveUp(new AbortedError('k', undefined))
  expect(run.next()).toEqual({ request: one, token: '10' })
  expect(run.next()).toEqual({ request: three, token: '12' })
  expect(run.next()).toBeUndefined()
})

test('an answer that offers no higher number than the last is late, whatever the length of the two', () => {
  const one = request()
  expect(new Run('8').add(one, '9')).toBe(true)
  expect(new Run('8').add(one, '9')).toBe(false)
  const next = new Run('10')
  expect(next.add(one, '11')).toBe(true)
  expect(new Run('8').add(one, '9')).toBe(false)
  expect(next.next()).toEqual({ request: one, token: '11' })
})

test('who was offered a number of a later run has no turn in this one', () => {
  const one = request()
  const [first, later] = [new Run('1'), new Run('5')]
  expect([first.add(one, '2'), later.add(one, '6')]).toEqual([true, true])
  expect(first.next()).toBeUndefined()
  expect(later.next()).toEqual({ request: one, token: '6' })
})

test('who has what it wanted, or wants nothing any more, is not in it', () => {
  const [granted, left] = [request(), request()]
  granted.resolve(null)
  left.promise.catch(() => {})
  left.fail(new AbortedError('k', undefined))
  const run = new Run('1')
  expect([run.add(granted, '2'), run.add(left, '3')]).toEqual([false, false])
  expect(run.next()).toBeUndefined()
})

test('it is young for as long as it is told', () => {
  const run = new Run('1')
  expect([run.isYoung(0), run.isYoung(60_000)]).toEqual([false, true])
})
