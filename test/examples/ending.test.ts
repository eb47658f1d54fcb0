import { expect, test } from 'vitest'
import { example } from '../support/example.ts'

test('sigterm: the next one has the lock at once, and the work is not cut off', {
  timeout: 60_000,
}, async () => {
  const { code, said } = await example('sigterm')
  expect(code, said).toBe(0)
  expect(said).toContain('the worker ended: SIGTERM')
})

test('auto-renew: a heartbeat fails, and the lock is kept', { timeout: 90_000 }, async () => {
  const { code, said } = await example('auto-renew')
  expect(code, said).toBe(0)
  expect(said).toContain('degraded')
})

test('single-writer: the cache says what the database says', { timeout: 60_000 }, async () => {
  const { code, said } = await example('single-writer')
  expect(code, said).toBe(0)
  expect(said).toContain('stale_token')
})
