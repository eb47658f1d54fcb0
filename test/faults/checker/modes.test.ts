// The rules of shared locks, permits and several keys, over histories written by hand.
import { describe, expect, test } from 'vitest'
import type { Entry, Event, Final, Run } from './history.ts'
import { check } from './index.ts'

let seq = 0
const entry = (at: number, event: string, fields: Partial<Entry> = {}): Entry => ({
  seq: ++seq,
  at,
  xid: String(at),
  event,
  key: 'k',
  session: null,
  request: null,
  token: null,
  label: null,
  detail: {},
  ...fields,
})
const of = (who: string) => ({ session: `session of ${who}`, request: `request ${who}`, label: who })
const head = (at: number, mode: string | null, capacity: number | null = null, marked = false): Entry =>
  entry(at, 'unheld', { detail: { mode, capacity, level: '1', marked, rests: null } })
const born = (at: number, mode: string | null, capacity: number | null = null): Entry[] => [
  entry(at, 'mended'),
  head(at, mode, capacity),
]
const joined = (at: number, who: string, token: string, permits: number | null = null, level = '1'): Entry =>
  entry(at, 'joined', { ...of(who), token, detail: { permits, level } })
const left = (at: number, who: string, token: string): Entry => entry(at, 'left', { ...of(who), token })
const granted = (at: number, who: string, token: string, key = 'k'): Entry =>
  entry(at, 'granted', { ...of(who), token, key, detail: { by: 'insert' } })
const ticket = (at: number, who: string, number: number, detail: Entry['detail'] = {}, key = 'k'): Entry =>
  entry(at, 'ticket', { ...of(who), key, detail: { ticket: number, mode: null, ...detail } })
const unticket = (at: number, who: string, number: number, key = 'k'): Entry =>
  entry(at, 'unticket', { ...of(who), key, detail: { ticket: number } })
const shared = { mode: 'shared' }

const event = (
  t: number,
  op: string,
  phase: Event['phase'],
  id: string,
  fields: Partial<Event> = {},
): Event => ({ t, process: id.split('-')[0] ?? id, op, id, phase, key: 'k', ...fields })
const holds = (
  id: string,
  token: string,
  from: number,
  until: number,
  about: Partial<Event> = {},
): Event[] => [
  event(from - 10, 'acquire', 'invoke', id, about),
  event(from, 'acquire', 'ok', id, { token, ...about }),
  event(until + 1, 'state', 'ok', id, { token, state: 'held', asked: until }),
]
const run = (events: readonly Event[], journal: readonly Entry[], final?: Final): Run => ({
  events,
  journal,
  lost: [],
  final,
})
const rulesOf = (it: Run): string[] => [...new Set(check(it).map(({ rule }) => rule))]
const toldOnly = (...events: Event[]): string[] =>
  rulesOf(run(events, [...born(1, 'permits', 4)])).filter(
    rule => rule !== 'recorded' && rule !== 'told-first',
  )

/** Two readers together, a writer behind them. */
const inOrder = (): Entry[] => [
  ...born(100, 'shared'),
  joined(100, 'a-1', '2'),
  joined(110, 'b-1', '3'),
  ticket(120, 'c-1', 7),
  left(130, 'a-1', '2'),
  left(140, 'b-1', '3'),
  unticket(140, 'c-1', 7),
  granted(140, 'c-1', '4'),
  entry(150, 'freed', { ...of('c-1'), token: '4' }),
]

test('a run as it should be breaks nothing', () => {
  const events = [
    ...holds('a-1', '2', 105, 125, shared),
    event(128, 'release', 'invoke', 'a-1', { token: '2' }),
    ...holds('b-1', '3', 115, 135, shared),
    event(138, 'release', 'invoke', 'b-1', { token: '3' }),
    ...holds('c-1', '4', 143, 147),
    event(148, 'release', 'invoke', 'c-1', { token: '4' }),
  ].sort((a, b) => a.t - b.t)
  expect(check(run(events, inOrder()))).toEqual([])
})

describe('by the record', () => {
  test('a writer beside a reader', () => {
    expect(rulesOf(run([], [...born(1, 'shared'), joined(1, 'a-1', '2'), granted(5, 'b-1', '3')]))).toContain(
      'exclusion',
    )
    expect(rulesOf(run([], [granted(1, 'a-1', '2'), joined(5, 'b-1', '3', null, '2')]))).toContain(
      'exclusion',
    )
  })

  test('a reader who had asked to be alone', () => {
    const journal = [
      ...born(1, 'shared'),
      joined(1, 'a-1', '2'),
      ticket(5, 'b-1', 7),
      unticket(5, 'b-1', 7),
      joined(5, 'b-1', '3'),
    ]
    expect(rulesOf(run([], journal))).toEqual(['exclusion'])
  })

  test('more permits than there are; a semaphore that is smaller by now keeps its holders', () => {
    const three = [...born(1, 'permits', 3), joined(1, 'a-1', '2', 2)]
    expect(rulesOf(run([], [...three, joined(5, 'b-1', '3', 1)]))).toEqual([])
    expect(rulesOf(run([], [...three, joined(5, 'b-1', '3', 2)]))).toEqual(['exclusion'])
    expect(rulesOf(run([], [...three, head(4, 'permits', 1)]))).toEqual([])
    expect(rulesOf(run([], [...three, head(4, 'permits', 2), joined(5, 'b-1', '3', 1)]))).toEqual([
      'exclusion',
    ])
  })

  test('a downgrade is no grant beside another; who comes beside it is', () => {
    const down = [
      granted(1, 'a-1', '2'),
      joined(5, 'a-1', '2', null, '2'),
      entry(5, 'idle', { ...of('a-1'), token: '2' }),
      head(5, 'shared'),
    ]
    const told = [...holds('a-1', '2', 2, 4)]
    expect(rulesOf(run(told, [...down, joined(6, 'b-1', '3', null, '2')]))).toEqual([])
    expect(rulesOf(run(told, [...down, granted(6, 'b-1', '3')]))).toEqual(['exclusion'])
  })
})

describe('levels', () => {
  const two = (one: string, other: string): string[] =>
    rulesOf(
      run([], [...born(1, 'shared'), joined(1, 'a-1', '8', null, one), joined(2, 'b-1', '9', null, other)]),
    )

  test('of those who hold it together are one, and not above their tokens', () => {
    expect(two('5', '5')).toEqual([])
    expect(two('5', '6')).toEqual(['levels'])
    expect(two('9', '9')).toEqual(['levels'])
  })

  test('are not below a writer before', () => {
    const written = [
      granted(1, 'a-1', '6'),
      entry(2, 'freed', { ...of('a-1'), token: '6' }),
      ...born(3, 'shared'),
    ]
    expect(rulesOf(run([], [...written, joined(3, 'b-1', '8', null, '7')]))).toEqual([])
    expect(rulesOf(run([], [...written, joined(3, 'b-1', '8', null, '5')]))).toEqual(['levels'])
  })

  test('what a client was told is what the database says', () => {
    const told = holds('a-1', '8', 10, 20, { ...shared, level: '8' })
    expect(rulesOf(run(told, [...born(1, 'shared'), joined(1, 'a-1', '8', null, '5')]))).toEqual(['recorded'])
  })
})

describe('the line', () => {
  const full = [...born(1, 'permits', 3), joined(1, 'a-1', '2', 2)]
  const heavy = ticket(5, 'b-1', 7, { mode: 'permits', permits: 3 })
  const light = ticket(6, 'c-1', 8, { mode: 'permits', permits: 1 })

  test('nobody passes who wants more than there is', () => {
    expect(rulesOf(run([], [...full, heavy, light]))).toEqual([])
    const past = [unticket(7, 'c-1', 8), joined(7, 'c-1', '4', 1)]
    expect(rulesOf(run([], [...full, heavy, light, ...past]))).toEqual(['in-line'])
  })

  test('who fits at the head is granted in the same commit, all who do', () => {
    expect(rulesOf(run([], [...full, light, entry(9, 'write')]))).toEqual(['served'])
    const readers = [ticket(5, 'b-1', 7, shared), ticket(5, 'c-1', 8, shared)]
    const one = [unticket(6, 'b-1', 7), joined(6, 'b-1', '4')]
    const writer = [granted(1, 'a-1', '2'), ...readers]
    const open = [entry(6, 'idle', { ...of('a-1'), token: '2' }), head(6, 'shared')]
    const alone = [...writer, ...open, ...one, entry(9, 'write')]
    expect(rulesOf(run([], alone))).toContain('served')
    const both = [...alone.slice(0, -1), unticket(6, 'c-1', 8), joined(6, 'c-1', '5'), entry(9, 'write')]
    expect(rulesOf(run([], both))).not.toContain('served')
  })

  test('the dead and what is marked are excused', () => {
    const dead = entry(5, 'died', { key: null, session: 'session of c-1' })
    const late = ticket(6, 'c-1', 8, { mode: 'permits', permits: 1 })
    expect(rulesOf(run([], [...full, dead, late, entry(9, 'write')]))).toEqual([])
    expect(rulesOf(run([], [...full, light, head(6, 'permits', 3, true), entry(9, 'write')]))).toEqual([])
    const promoted = entry(4, 'incarnation', { key: null, detail: { base: '2', before: '1', timeline: 1 } })
    expect(rulesOf(run([], [...full, promoted, light, entry(9, 'write')]))).toEqual([])
  })

  test('a key that is closed for nobody', () => {
    const closed = [
      granted(1, 'a-1', '2'),
      ticket(2, 'b-1', 7, { wide: true }),
      entry(3, 'idle', { ...of('a-1'), token: '2' }),
      head(3, null),
    ]
    expect(rulesOf(run([], [...closed, entry(9, 'write')]))).not.toContain('served')
    expect(rulesOf(run([], [...closed, unticket(4, 'b-1', 7), entry(9, 'write')]))).toContain('served')
  })
})

describe('several keys', () => {
  const both = ['x', 'y'].map(key => event(1, 'acquire', 'invoke', 'a-1', { key }))

  test('are granted all of them, and stood in line for', () => {
    const inOne = granted(10, 'a-1', '2', 'x')
    expect(rulesOf(run(both, [inOne]))).toEqual(['all-or-nothing'])
    expect(rulesOf(run(both, [inOne, granted(10, 'a-1', '3', 'y')]))).toEqual([])
    const inX = ticket(10, 'a-1', 1, { wide: true }, 'x')
    expect(rulesOf(run(both, [inX]))).toEqual(['all-or-nothing'])
    const inBoth = [inX, ticket(10, 'a-1', 2, { wide: true }, 'y')]
    expect(rulesOf(run(both, inBoth))).toEqual([])
    const one = [...inBoth, unticket(20, 'a-1', 1, 'x')]
    expect(rulesOf(run(both, one))).toEqual(['all-or-nothing'])
    const dead = entry(15, 'died', { ...of('a-1'), key: null })
    expect(rulesOf(run(both, [...inBoth, dead, unticket(20, 'a-1', 1, 'x')]))).toEqual([])
  })

  test('what was inserted to be numbered, and given up in the same commit, is none', () => {
    const drawn = granted(10, 'a-1', '-2', 'x')
    const given = entry(10, 'idle', { ...of('a-1'), key: 'x', token: '-2' })
    const tickets = [ticket(10, 'a-1', 1, { wide: true }, 'x'), ticket(10, 'a-1', 2, { wide: true }, 'y')]
    expect(rulesOf(run(both, [drawn, given, ...tickets]))).toEqual([])
  })
})

describe('by the clients', () => {
  const permits = (count: number) => ({ mode: 'permits', permits: count })

  test('readers may say held at one moment, a writer beside them not', () => {
    expect(toldOnly(...holds('a-1', '2', 100, 200, shared), ...holds('b-1', '3', 150, 250, shared))).toEqual(
      [],
    )
    expect(toldOnly(...holds('a-1', '2', 100, 200, shared), ...holds('b-1', '3', 150, 250))).toEqual([
      'exclusion',
    ])
  })

  test('a writer that is a reader by now', () => {
    const down = [
      event(90, 'acquire', 'invoke', 'a-1'),
      event(100, 'acquire', 'ok', 'a-1', { token: '2' }),
      event(120, 'state', 'ok', 'a-1', { token: '2', state: 'held', asked: 119 }),
      event(130, 'downgrade', 'invoke', 'a-1', { token: '2' }),
      event(200, 'state', 'ok', 'a-1', { token: '2', state: 'held', asked: 199 }),
    ]
    expect(toldOnly(...down, ...holds('b-1', '3', 150, 250, shared))).toEqual([])
    expect(toldOnly(...down, ...holds('b-1', '3', 110, 250, shared))).toEqual(['exclusion'])
  })

  test('more permits than there are', () => {
    const two = [...holds('a-1', '2', 100, 200, permits(2)), ...holds('b-1', '3', 150, 250, permits(2))]
    expect(toldOnly(...two)).toEqual([])
    expect(toldOnly(...two, ...holds('c-1', '4', 160, 250, permits(1)))).toEqual(['exclusion'])
    expect(toldOnly(...two, ...holds('c-1', '4', 210, 250, permits(2)))).toEqual([])
  })

  test('a permit that was given to another', () => {
    const journal = [
      ...born(1, 'permits', 2),
      joined(95, 'a-1', '2', 2),
      left(120, 'a-1', '2'),
      joined(120, 'b-1', '3', 1),
    ]
    const late = [
      ...holds('a-1', '2', 100, 150, permits(2)),
      event(118, 'release', 'invoke', 'a-1', { token: '2' }),
    ]
    expect(rulesOf(run(late, journal))).toEqual(['told-first'])
  })

  test('two different readings under one pin; a fence that refuses who holds', () => {
    const read = (seen: string[]) => event(100, 'write', 'ok', 'a-9', { token: '2', kind: 'pin', seen })
    expect(rulesOf(run([read(['4', '4'])], []))).toEqual([])
    expect(rulesOf(run([read(['4', '5'])], []))).toEqual(['guard'])
    const refused = (t: number) =>
      event(t, 'write', 'fail', 'a-9', { token: '1', holder: '2', kind: 'mark', code: 'FP002' })
    const held = holds('a-1', '2', 100, 150, { ...shared, level: '1' })
    const journal = [...born(95, 'shared'), joined(95, 'a-1', '2')]
    expect(rulesOf(run([...held, refused(120)], journal))).toEqual(['fence'])
    expect(rulesOf(run([...held, refused(160)], journal))).toEqual([])
  })
})

test('a closed session leaves nothing but what a guard pins', () => {
  const died = (expired: boolean) => entry(9, 'died', { ...of('a-1'), key: null, detail: { expired } })
  const two = [...born(1, 'shared'), joined(1, 'a-1', '2'), joined(1, 'a-1', '3')]
  expect(rulesOf(run([], [...two, died(true), entry(20, 'write')]))).toEqual([])
  expect(rulesOf(run([], [...two, died(false), left(9, 'a-1', '2')]))).toEqual(['given-back'])
  const pinned = entry(9, 'pinned', { ...of('a-1'), token: '3' })
  expect(rulesOf(run([], [...two, died(false), left(9, 'a-1', '2'), pinned]))).toEqual([])
})
