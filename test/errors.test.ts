import { expect, test } from 'vitest'
import * as errors from '../src/errors.ts'
import * as fencepost from '../src/index.ts'

const codes = {
  BadOptionError: 'bad_option',
  BadKeyError: 'bad_key',
  LockTimeoutError: 'timed_out',
  AbortedError: 'aborted',
  QueueFullError: 'queue_full',
  NotHeldError: 'not_held',
  LostError: 'lost',
  CommitUnknownError: 'commit_unknown',
  NotInTransactionError: 'not_in_transaction',
  WrongDatabaseError: 'wrong_database',
  ClosedError: 'closed',
  UnhealthyError: 'unhealthy',
  UnreachableError: 'unreachable',
  OutOfConnectionsError: 'out_of_connections',
  ReadOnlyServerError: 'read_only',
  ServerTooOldError: 'server_too_old',
  NotMigratedError: 'not_migrated',
  NotPermittedError: 'not_permitted',
  DatabaseError: 'database',
}
const classes = Object.entries(errors).filter(([, value]) => typeof value === 'function')

test('every error is exported, has a code of its own and its name', () => {
  const concrete = classes.filter(([name]) => name !== 'FencepostError')
  const found = Object.fromEntries(concrete.map(([name, type]) => [name, type.prototype.code]))
  expect(found).toMatchObject(codes)
  expect(new Set(Object.values(found)).size).toBe(concrete.length)
  for (const [name, type] of concrete) {
    expect(type.prototype).toBeInstanceOf(errors.FencepostError)
    expect(type.prototype.name).toBe(name)
    expect(type.prototype.code).toMatch(/^[a-z]+(_[a-z]+)*$/)
    expect(fencepost).toHaveProperty(name, type)
  }
})

test('the code is seen where an error is logged or copied, the message and the cause are kept', () => {
  const cause = new Error('underneath')
  const error = new errors.UnreachableError('gone', { cause })
  expect(error).toBeInstanceOf(Error)
  expect([error.message, error.cause, error.code]).toEqual(['gone', cause, 'unreachable'])
  expect(String(error)).toBe('UnreachableError: gone')
  expect(error.stack).toContain('errors.test.ts')
})

test('what is told apart by kind is told apart by class', () => {
  expect(new errors.LostError('k', 'forced')).toBeInstanceOf(errors.NotHeldError)
  expect(new errors.OutOfConnectionsError('full')).toBeInstanceOf(errors.UnreachableError)
  expect(new errors.ReadOnlyServerError('standby')).toBeInstanceOf(errors.UnreachableError)
  expect(new errors.NotHeldError('no', 'k')).not.toBeInstanceOf(errors.LostError)
})

test('fields say what the message says', () => {
  expect(new errors.LockTimeoutError('a "key"', 50)).toMatchObject({
    key: 'a "key"',
    timeout: 50,
    message: '"a \\"key\\"" was not free within 50 ms',
  })
  const outage = new errors.LockTimeoutError('k', 50, { cause: 'the outage' })
  expect(outage).toMatchObject({ cause: 'the outage', timeout: 50 })
  expect(outage.message).toContain('the database was away within 50 ms')
  expect(new errors.LockTimeoutError('k', 50)).not.toHaveProperty('cause')
  expect(new errors.CommitUnknownError('k', '123', 'cut')).toMatchObject({
    key: 'k',
    transaction: '123',
    cause: 'cut',
  })
  expect(new errors.AbortedError('k', 'why')).toMatchObject({ key: 'k', cause: 'why' })
  expect(new errors.QueueFullError('k', 3)).toMatchObject({ key: 'k', limit: 3 })
  expect(new errors.LostError('k', 'expired')).toMatchObject({ key: 'k', reason: 'expired' })
})
