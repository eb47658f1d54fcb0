import { expect, test } from 'vitest'
import { latestVersion } from '../../src/database/migrations/catalog.ts'
import { migrationSql } from '../../src/database/migrations/script.ts'
import { BadOptionError } from '../../src/errors.ts'

test.each([
  { from: -1 },
  { to: latestVersion + 1 },
  { from: 0.5 },
  { from: 2, to: 1 },
  { direction: 'down', from: 1, to: 2 },
  { schema: '' },
  { direction: 'sideways' as 'up' },
] as const)('refuses %j', options => {
  expect(() => migrationSql(options)).toThrow(BadOptionError)
})

test('no tool takes a part of it for a placeholder of its own', () => {
  const script = migrationSql() + migrationSql({ direction: 'down' })
  expect(script).not.toMatch(/\$\{/) // Flyway
  expect(script).not.toContain('\r')
})
