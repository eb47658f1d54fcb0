// Each rule finds what it is for in a history written by hand, and nothing in one that is as it should be.
import { describe, expect, test } from 'vitest'
import { availability, operations } from './figures.ts'
import type { Entry, Event, Final, Run } from './history.ts'
import { check } from './index.ts'

let seq = 0
const entry = (at: number, event: string, fields: Partial<Entry> = {}): Entry => ({
  seq: ++seq,
  at,
  xid: '1',
  event,
  key: 'k',
  session: null,
  request: null,
  token: null,
  label: null,
  detail: {},
  ...fields,
})
const event = (
  t: number,
  op: string,
  phase: Event['phase'],
  id: string,
  fields: Partial<Event> = {},
): Event => ({
  t,
  process: id.split('-')[0] ?? id,
  op,
  id,
  phase,
  key: 'k',
  ...fields,
})
const granted = (at: number, who: string, token: string, detail: Entry['detail'] = { by: 'insert' }): Entry =>
  entry(at, 'granted', { session: `session of ${who}`, request: `request ${who}`, label: who, token, detail })
const run = (events: readonly Event[], journal: readonly Entry[], final?: Final): Run => ({
  events,
  journal,
  lost: [],
  final,
})
const nothing: Final = { counters: [], ledger: [], leftovers: {} }
const rulesOf = (it: Run): string[] => [...new Set(check(it).map(({ rule }) => rule))]

const acquire = (from: number, to: number, id: string, token: string): Event[] => [
  event(from, 'acquire', 'invoke', id),
  event(to, 'acquire', 'ok', id, { token }),
]
const held = (asked: number, id: string, token: string): Event =>
  event(asked + 1, 'state', 'ok', id, { token, state: 'held', asked })
const release = (t: number, id: string, token: string): Event => event(t, 'release', 'invoke', id, { token })

/** a-1 holds token 1 from 100 to 200, b-1 waits for it and holds token 2 until 300. */
function inOrder(): Run {
  return run(
    [
      ...acquire(90, 101, 'a-1', '1'),
      event(110, 'acquire', 'invoke', 'b-1'),
      held(150, 'a-1', '1'),
      release(190, 'a-1', '1'),
      event(201, 'acquire', 'ok', 'b-1', { token: '2' }),
      held(250, 'b-1', '2'),
      release(290, 'b-1', '2'),
    ],
    [
      granted(100, 'a-1', '1'),
      entry(120, 'ticket', { request: 'request b-1', label: 'b-1', detail: { ticket: 7 } }),
      entry(200, 'unticket', { request: 'request b-1', label: 'b-1', detail: { ticket: 7 } }),
      granted(200, 'b-1', '2', { by: 'hand-over', from: '1' }),
      entry(300, 'freed', { session: 'session of b-1', token: '2', label: 'b-1' }),
    ],
    nothing,
  )
}

test('a run as it should be breaks nothing', () => {
  expect(check(inOrder())).toEqual([])
  expect(operations(inOrder().events)).toBe(2)
  expect(availability(inOrder().events)).toBe(1)
})

describe('grants', () => {
  test('two handles that say held at one moment', () => {
    const { events, journal } = inOrder()
    const late = [...events, held(240, 'a-1', '1')]
    expect(rulesOf(run(late, journal))).toEqual(expect.arrayContaining(['exclusion', 'told-first']))
  })

  test('a handle that says held after the next grant, though nobody else has heard of that yet', () => {
    const events = [...acquire(90, 101, 'a-1', '1'), held(215, 'a-1', '1')]
    const dead = entry(199, 'died', {
      key: null,
      session: 'session of a-1',
      detail: { expired: true, ttl: 50 },
    })
    const journal = [granted(100, 'a-1', '1'), dead, granted(200, 'b-1', '2', { by: 'hand-over', from: '1' })]
    expect(rulesOf(run(events, journal))).toEqual(['told-first'])
    const inTime = [...acquire(90, 101, 'a-1', '1'), held(205, 'a-1', '1')]
    expect(rulesOf(run(inTime, journal))).toEqual([])
  })

  test('a grant that ended though nobody gave it up, and its holder is not dead', () => {
    const events = acquire(90, 101, 'a-1', '1')
    expect(rulesOf(run(events, [granted(100, 'a-1', '1'), entry(150, 'freed', { token: '1' })]))).toEqual([
      'only-mine',
    ])
  })

  test('a token that does not rise, by the journal', () => {
    expect(rulesOf(run([], [granted(100, 'a-1', '5'), granted(200, 'b-1', '4')]))).toEqual(['tokens'])
  })

  test('a number that was drawn again before it was told is not judged', () => {
    const again = entry(200, 'renumbered', {
      session: 'session of b-1',
      request: 'request b-1',
      token: '6',
      label: 'b-1',
      detail: { from: '4' },
    })
    expect(rulesOf(run([], [granted(100, 'a-1', '5'), granted(200, 'b-1', '4'), again]))).toEqual([])
  })

  test('a token that does not rise, by what clients were told', () => {
    const events = [
      ...acquire(90, 101, 'a-1', '5'),
      release(110, 'a-1', '5'),
      ...acquire(120, 130, 'b-1', '4'),
    ]
    const unrecorded = (events: readonly Event[]) =>
      rulesOf(run(events, [])).filter(rule => rule !== 'recorded')
    expect(unrecorded(events)).toEqual(['tokens'])
    const overlapping = [...acquire(90, 125, 'a-1', '5'), ...acquire(120, 130, 'b-1', '4')]
    expect(unrecorded(overlapping)).toEqual([])
  })

  describe('of a run', () => {
    const follows = (at: number, who: string, token: string): Entry =>
      entry(at, 'run', { session: 'session of a-1', request: `request ${who}`, label: who, token })
    const inRun = () => [granted(100, 'a-1', '1'), follows(100, 'a-2', '2')]
    const turns = () => [
      ...acquire(90, 101, 'a-1', '1'),
      release(110, 'a-1', '1'),
      ...acquire(90, 111, 'a-2', '2'),
    ]

    test('each has its turn: nothing is found', () => {
      const freed = entry(160, 'freed', { token: '1', session: 'session of a-1', label: 'a-1' })
      expect(rulesOf(run([...turns(), release(150, 'a-2', '2')], [...inRun(), freed]))).toEqual([])
    })

    test('a turn that the database has not granted, or to another', () => {
      expect(rulesOf(run(turns(), [granted(100, 'a-1', '1')]))).toEqual(['recorded'])
      expect(rulesOf(run(turns(), [granted(100, 'a-1', '1'), follows(100, 'a-3', '2')]))).toEqual([
        'recorded',
      ])
    })

    test('it ended while one had its turn', () => {
      const freed = entry(160, 'freed', { token: '1', session: 'session of a-1', label: 'a-1' })
      expect(rulesOf(run(turns(), [...inRun(), freed]))).toEqual(['only-mine'])
    })

    test('one says that it holds after the next was granted', () => {
      const next = granted(200, 'b-1', '3', { by: 'hand-over' })
      const late = [...turns(), held(260, 'a-2', '2'), release(270, 'a-2', '2')]
      expect(rulesOf(run(late, [...inRun(), next]))).toContain('told-first')
    })
  })

  test('a grant past a ticket', () => {
    const ticket = entry(110, 'ticket', { request: 'request b-1', label: 'b-1', detail: { ticket: 7 } })
    const freed = entry(150, 'freed', { token: '1' })
    expect(rulesOf(run([], [granted(100, 'a-1', '1'), ticket, freed, granted(160, 'c-1', '2')]))).toEqual([
      'in-line',
    ])
  })

  test('a session that is renewed after its death', () => {
    expect(rulesOf(run([], [entry(100, 'revived', { key: null })]))).toEqual(['dead-stays-dead'])
  })
})

describe('writes', () => {
  const write = (at: number, token: string, kind: string): Entry =>
    entry(at, 'write', { token, label: 'a-2', detail: { kind, seen: '0' } })

  test('a guarded write under a grant that has ended', () => {
    const journal = [granted(100, 'a-1', '1'), entry(150, 'freed', { token: '1' })]
    expect(rulesOf(run([], [...journal, write(160, '1', 'guard')]))).toEqual(['guard'])
    expect(rulesOf(run([], [granted(100, 'a-1', '1'), write(160, '1', 'guard')]))).toEqual([])
  })

  test('a fenced write under a token lower than the last', () => {
    expect(rulesOf(run([], [write(100, '2', 'fence'), write(110, '1', 'fence')]))).toEqual(['fence'])
  })

  const row = (id: string, seen: string) => ({ id, key: 'k', kind: 'guard', token: '1', seen })
  const ledger = (...rows: ReturnType<typeof row>[]): Final => ({
    counters: [{ key: 'k', value: String(rows.length) }],
    ledger: rows,
    leftovers: {},
  })

  test.each([
    { name: 'acknowledged and absent', phase: 'ok' as const, final: ledger(), found: ['writes'] },
    { name: 'refused and there', phase: 'fail' as const, final: ledger(row('a-2', '0')), found: ['writes'] },
    { name: 'unknown and there', phase: 'unknown' as const, final: ledger(row('a-2', '0')), found: [] },
    { name: 'unknown and absent', phase: 'unknown' as const, final: ledger(), found: [] },
  ])('a write that is $name', ({ phase, final, found }) => {
    const events = [event(100, 'write', 'invoke', 'a-2'), event(110, 'write', phase, 'a-2')]
    expect(rulesOf(run(events, [], final))).toEqual(found)
  })

  test('two writes that read the same', () => {
    expect(rulesOf(run([], [], ledger(row('a-2', '0'), row('b-2', '0'))))).toEqual(['writes'])
  })
})

describe('aborts', () => {
  const aborted = [
    event(100, 'acquire', 'invoke', 'a-1'),
    event(150, 'acquire', 'fail', 'a-1', { code: 'aborted' }),
  ]
  const ticket = entry(120, 'ticket', { request: 'r', label: 'a-1', detail: { ticket: 1 } })
  const gone = (at: number): Entry =>
    entry(at, 'unticket', { request: 'r', label: 'a-1', detail: { ticket: 1 } })
  const later = entry(3_000, 'opened', { key: null })

  test('a ticket that outlives the answer', () => {
    expect(rulesOf(run(aborted, [ticket, gone(400), later]))).toEqual(['abort-clean'])
    expect(rulesOf(run(aborted, [ticket, gone(140), later]))).toEqual([])
  })

  test('is excused by a fault that struck that process', () => {
    const fault = (target: string): Event[] => [
      event(90, 'fault', 'invoke', 'fault-1', { fault: 'cut', target }),
      event(95, 'fault', 'ok', 'fault-1', { fault: 'cut', target }),
    ]
    expect(rulesOf(run([...fault('a'), ...aborted], [ticket, gone(400), later]))).toEqual([])
    expect(rulesOf(run([...fault('b'), ...aborted], [ticket, gone(400), later]))).toEqual(['abort-clean'])
  })
})

describe('incarnations', () => {
  const born = (at: number, base: string): Entry =>
    entry(at, 'incarnation', { key: null, detail: { base, before: '10', restarted: true, timeline: 0 } })

  test('a base that does not rise', () => {
    expect(rulesOf(run([], [born(100, '10')]))).toEqual(['base'])
  })

  test('a grant in a new life that nobody has noticed', () => {
    const fault = [
      event(100, 'fault', 'invoke', 'fault-1', { life: true, fault: 'server-crashed' }),
      event(200, 'fault', 'ok', 'fault-1', { life: true, fault: 'server-crashed' }),
    ]
    expect(rulesOf(run(fault, [granted(210, 'a-1', '1')]))).toEqual(['incarnation'])
    expect(rulesOf(run(fault, [born(190, '20'), granted(210, 'a-1', '1')]))).toEqual([])
  })

  test('a session that is buried within its grace', () => {
    const opened = entry(50, 'opened', { key: null, session: 's', label: 'a' })
    const died = (at: number): Entry =>
      entry(at, 'died', { key: null, session: 's', label: 'a', detail: { expired: true, ttl: 2_000 } })
    expect(rulesOf(run([], [opened, born(100, '20'), died(1_500)]))).toEqual(['grace'])
    expect(rulesOf(run([], [opened, born(100, '20'), died(2_150)]))).toEqual([])
  })
})

describe('the end', () => {
  test('somebody who was never answered, unless he was killed', () => {
    const events = [event(100, 'acquire', 'invoke', 'a-1')]
    expect(rulesOf(run(events, [], nothing))).toEqual(['forgotten'])
    expect(rulesOf(run([...events, event(200, 'process', 'fail', 'a-killed')], [], nothing))).toEqual([])
  })

  test('what is left, what nobody caught, what was refused without a word', () => {
    expect(rulesOf(run([], [], { ...nothing, leftovers: { waiters: 1, locks: 0 } }))).toEqual(['leftovers'])
    expect(rulesOf(run([event(1, 'close', 'ok', 'a-close', { left: ['Timeout'] })], []))).toEqual([
      'leftovers',
    ])
    expect(rulesOf(run([event(1, 'close', 'ok', 'a-close', { left: [] })], []))).toEqual([])
    expect(rulesOf(run([event(1, 'unhandled', 'fail', 'a-1')], []))).toEqual(['unhandled'])
    const refused = [
      event(1, 'acquire', 'invoke', 'a-1'),
      event(2, 'acquire', 'fail', 'a-1', { code: 'undefined' }),
    ]
    expect(rulesOf(run(refused, []))).toEqual(['explained'])
  })
})
