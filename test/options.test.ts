import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { BadOptionError, Fencepost, type FencepostOptions } from '../src/index.ts'

const connectionString = 'postgresql://nobody@127.0.0.1:1/none'

/** What the constructor says to options that TypeScript would not let through. */
function make(options: object): Fencepost {
  return new Fencepost({ connectionString, ...options } as FencepostOptions)
}

const refused: Record<string, [option: string, values: unknown[]]> = {
  database: ['connectionString', ['', undefined, null, 5, {}, [], Symbol('x')]],
  pool: ['pool', ['', null, 5, {}, { query: 1 }, { options: 5 }]],
  schema: ['schema', ['', 5, 'a\0b', 'pg_mine', 'x'.repeat(64), 'é'.repeat(32), {}, Object.create(null)]],
  ttl: [
    'ttl',
    [0, -1, 999, '999ms', Number.NaN, Number.POSITIVE_INFINITY, 'soon', '', '10 parsecs', '2d', {}, 1n],
  ],
  poll: ['poll', [0, 19, 60_001, Number.NaN, '', 'often']],
  maxPending: ['maxPending', [0, -1, 1.5, Number.NaN, '5']],
  maxPendingPerKey: ['maxPendingPerKey', [0, -1, 1.5, Number.NaN, '5']],
  namespace: ['namespace', ['', 'a:b', 'a\0b', 'x'.repeat(201), '\ud800', 5, {}]],
  owner: ['owner', ['a\0b', '\ud800', 'x'.repeat(201), 5]],
  healthy: ['healthy', [true, 'yes', {}]],
  listen: ['listen', ['yes', 1, {}, { connectionString: '' }, { connectionString: 5 }]],
}

describe('options out of their bounds are refused when a client is made', () => {
  for (const [what, [option, values]] of Object.entries(refused)) {
    test.each(values.map(value => ({ value })))(`${what}: $value`, ({ value }) => {
      const options = option === 'pool' ? { connectionString: undefined, pool: value } : { [option]: value }
      expect(() => make(options)).toThrow(BadOptionError)
      expect(() => make(options)).toThrow(expect.objectContaining({ code: 'bad_option' }))
    })
  }
  test('none at all', () => {
    expect(() => new (Fencepost as unknown as new () => Fencepost)()).toThrow(BadOptionError)
  })
})

test('the message names the option and its bounds', () => {
  expect(() => make({ ttl: 999 })).toThrow('ttl: want 1000 to 86400000 ms, or text such as "15s"; got 999')
  expect(() => make({ poll: '5ms' })).toThrow('poll: want 20 to 60000 ms, or text such as "15s"; got "5ms"')
  expect(() => make({ maxPending: 0 })).toThrow('maxPending: want a whole number from 1; got 0')
})

test('what is at the bounds is taken, and nothing is connected to', async () => {
  const pool = new pg.Pool({ connectionString })
  const clients = [
    make({ ttl: 1_000, poll: 20, maxPending: 1, maxPendingPerKey: 1, namespace: 'x'.repeat(200) }),
    make({ ttl: '1d', poll: '1m', maxPending: Number.POSITIVE_INFINITY, schema: 'x'.repeat(63) }),
    make({ listen: false, owner: '', schema: 'with "quotes" and é' }),
    make({ connectionString: undefined, pool, listen: { connectionString } }),
    make({ connectionString: undefined, pool: connectionString }),
  ]
  for (const client of clients) await client.close()
  expect(pool.totalCount).toBe(0)
  await pool.end()
})
