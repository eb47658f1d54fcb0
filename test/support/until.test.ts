import { expect, test } from 'vitest'
import { until } from './until.ts'

test('answers the first truthy look', async () => {
  let looks = 0
  expect(await until(() => (++looks === 3 ? `after ${looks}` : undefined), { every: 1 })).toBe('after 3')
  expect(looks).toBe(3)
})

test('a look that throws is a "not yet", and the cause of the failure', async () => {
  let looks = 0
  const look = () => {
    looks++
    throw new Error('refused')
  }
  const failure = await until(look, { within: 30, every: 1, what: 'the door opens' }).catch(error => error)
  expect(failure.message).toContain('not reached within 30 ms: the door opens')
  expect(failure.cause.message).toBe('refused')
  expect(looks).toBeGreaterThan(1)
})
