// What an observer shows, look by look: pure, by rows and times that the test makes up.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { LeaderRow } from '../../src/database/sight-calls.ts'
import { Sequence } from '../../src/election/sequence.ts'

const ttl = 1_000

const row = (token: number, renewedAt: number, fields: Partial<LeaderRow> = {}): LeaderRow => ({
  identity: `of ${token}`,
  value: null,
  token: String(token),
  owner: null,
  since: 0,
  renewedAt,
  ttl,
  expiresIn: ttl,
  ...fields,
})

/** What is shown of looks at these times, each answered 1 ms later: a token, null, or `-` for nothing new. */
function shown(...looks: [at: number, seen: LeaderRow | undefined][]): (number | null | '-')[] {
  const sequence = new Sequence()
  return looks.map(([at, seen]) => {
    const next = sequence.next(seen, at, at + 1)
    return next === undefined ? '-' : next && Number(next.token)
  })
}

describe('an observer shows', () => {
  test('first of all what is, be it a leader or a vacancy; each once', () => {
    expect(shown([0, undefined], [1, undefined], [2, row(5, 0)], [3, row(5, 0)], [4, row(6, 0)])).toEqual([
      null,
      '-',
      5,
      '-',
      6,
    ])
    expect(shown([0, row(5, 0)], [1, undefined], [2, row(6, 0)])).toEqual([5, null, 6])
  })

  test('the whole of a leader', () => {
    const seen = row(5, 1_700_000_000_000, { value: '{"a":1}', owner: 'me', since: 1_600_000_000_000 })
    expect(new Sequence().next(seen, 0, 1)).toEqual({
      identity: 'of 5',
      value: { a: 1 },
      token: 5n,
      since: new Date(1_600_000_000_000),
      renewedAt: new Date(1_700_000_000_000),
      ttl,
      owner: 'me',
    })
  })

  test('no term again that is over by what was shown, whatever the record says', () => {
    const back = [row(5, 0), row(5, 500), row(4, 500)].map((seen, i): [number, LeaderRow] => [i + 3, seen])
    expect(shown([0, row(5, 0)], [1, undefined], ...back, [9, row(6, 0)])).toEqual([
      5,
      null,
      '-',
      '-',
      '-',
      6,
    ])
    expect(shown([0, row(5, 0)], [1, row(4, 0)], [2, row(5, 0)])).toEqual([5, null, '-'])
  })

  test('a vacancy where nothing was renewed for a ttl, by the observer’s own clock', () => {
    const looks = (...at: number[]) => at.map((at): [number, LeaderRow] => [at, row(5, 0)])
    expect(shown(...looks(0, 500, 1_000))).toEqual([5, '-', '-'])
    expect(shown(...looks(0, 500, 1_001))).toEqual([5, '-', null])
    expect(shown([0, row(5, 0)], [900, row(5, 7)], [1_500, row(5, 7)], [1_901, row(5, 7)])).toEqual([
      5,
      '-',
      '-',
      null,
    ])
  })

  test('no vacancy for what has expired by the server’s clock alone, which may have been stepped', () => {
    const expired = { expiresIn: 0 }
    expect(shown([0, row(5, 0)], [10, row(5, 0, expired)], [400, row(5, 99)])).toEqual([5, '-', '-'])
  })

  test('no leader whom it meets expired, until that is renewed', () => {
    const expired = { expiresIn: 0 }
    expect(shown([0, row(5, 0, expired)], [10, row(5, 0, expired)], [20, row(5, 9)])).toEqual([null, '-', 5])
    expect(shown([0, row(4, 0)], [10, row(5, 0, expired)], [20, row(6, 0)])).toEqual([4, null, 6])
  })
})

test('of any looks: tokens rise strictly, vacancies are told once, and what is there is shown', () => {
  const look = fc.record({
    token: fc.option(fc.integer({ min: 1, max: 6 })),
    renewedAt: fc.nat(3),
    expired: fc.boolean(),
    after: fc.nat(800),
  })
  fc.assert(
    fc.property(fc.array(look, { minLength: 1, maxLength: 30 }), looks => {
      const sequence = new Sequence()
      let [at, highest] = [0, 0]
      let last: number | null | undefined
      for (const { token, renewedAt, expired, after } of looks) {
        at += after
        const seen = token === null ? undefined : row(token, renewedAt, expired ? { expiresIn: 0 } : {})
        const next = sequence.next(seen, at, at + 1)
        if (next === null) expect(last).not.toBeNull()
        if (next) expect(Number(next.token)).toBeGreaterThan(highest)
        if (next !== undefined) last = next && Number(next.token)
        if (next) highest = Number(next.token)
        // Something is always shown, and never a term that the record does not have.
        expect(last).not.toBeUndefined()
        if (last !== null) expect(last).toBe(token)
        if (token !== null && token > highest) expect(expired).toBe(true)
      }
    }),
  )
})
