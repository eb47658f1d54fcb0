import { describe, expect, test } from 'vitest'

const { judge } = await import(new URL('../../examples/quickstart/findings.mjs', import.meta.url).href)

const row = (holder: string, token: string, did = 'read') => ({ holder, token, did })

/** What a run looks like in which all was well. */
const evidence = {
  journal: [
    row('Ada', '10'),
    row('Ada', '10', 'wrote'),
    row('Cleo', '11'),
    row('Cleo', '11', 'wrote'),
    row('Ben', '12'),
    row('Cleo', '13'),
    row('Cleo', '13', 'wrote'),
  ],
  line: ['Cleo', 'Ben'],
  killed: { who: 'Ada', signal: 'SIGKILL', expected: 'Ben', heir: 'Ben', after: 2_500 },
  slept: { who: 'Ben', for: 3_500, state: 'lost', reason: 'expired', outcome: 'FP002' },
  counter: 3,
  acknowledged: 3,
  ttl: 3_000,
  poll: 1_000,
}

const all = [
  'tokens rise',
  'line is kept',
  'ended by',
  'stood still',
  'old token was refused',
  'no update is lost',
]

describe('what the quickstart counts as observed', () => {
  test('a run in which all was well', () => {
    expect(failing({})).toEqual([])
    expect(judge(evidence)).toHaveLength(all.length)
  })

  test.each([
    [
      'tokens that stand still',
      { journal: [row('Ada', '10'), row('Cleo', '10'), row('Ben', '12'), row('Cleo', '13')] },
      [0],
    ],
    [
      'tokens compared as text',
      { journal: [row('Ada', '9'), row('Cleo', '10'), row('Ben', '12'), row('Cleo', '13')] },
      [],
    ],
    ['no grant at all', { journal: [] }, [0, 1, 3]],
    ['somebody overtaken', { line: ['Ben', 'Cleo'] }, [1]],
    ['nobody in line', { line: [] }, [1]],
    ['a holder that ended by itself', { killed: { ...evidence.killed, signal: 0 } }, [2]],
    ['an heir that was not the next', { killed: { ...evidence.killed, heir: 'Cleo' } }, [2]],
    ['an heir that came late', { killed: { ...evidence.killed, after: 4_001 } }, [2]],
    ['a sleep shorter than the ttl', { slept: { ...evidence.slept, for: 2_999 } }, [3]],
    ['a sleeper that believes itself the holder', { slept: { ...evidence.slept, state: 'held' } }, [3]],
    ['nobody who came in meanwhile', { journal: evidence.journal.slice(0, 5) }, [3]],
    ['a stale write let in', { slept: { ...evidence.slept, outcome: 'accepted' } }, [4]],
    ['a stale write in the data', { journal: [...evidence.journal, row('Ben', '12', 'wrote')] }, [4]],
    ['a lost update', { counter: 2 }, [5]],
    ['nothing written', { counter: 0, acknowledged: 0 }, [5]],
  ])('%s', (_, change, expected) => {
    expect(failing(change)).toEqual(expected)
  })
})

/** Which of the findings fail, by their place, when this is changed. */
function failing(change: object): number[] {
  const findings: { ok: boolean; what: string }[] = judge({ ...evidence, ...change })
  for (const [i, { what }] of findings.entries()) expect(what).toContain(all[i])
  return findings.flatMap(({ ok }, i) => (ok ? [] : [i]))
}
