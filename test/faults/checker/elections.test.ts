// The rules of elections, each with a history written by hand that breaks it, and one that does not.
import { describe, expect, test } from 'vitest'
import type { Entry, Event, Run } from './history.ts'
import { check } from './index.ts'

const key = 'election:1'
let seq = 0

const entry = (at: number, event: string, fields: Partial<Entry> = {}): Entry => ({
  seq: ++seq,
  at,
  xid: String(seq),
  event,
  key,
  session: null,
  request: null,
  token: null,
  label: null,
  detail: {},
  ...fields,
})
const granted = (at: number, token: string): Entry =>
  entry(at, 'granted', {
    token,
    session: `session ${token}`,
    request: `request ${token}`,
    detail: { by: 'insert' },
  })
const freed = (at: number, token: string): Entry => entry(at, 'freed', { token, session: `session ${token}` })
const event = (t: number, op: string, id: string, fields: Partial<Event> = {}): Event => ({
  t,
  process: id.split('-')[0] ?? id,
  op,
  id,
  phase: 'ok',
  key,
  ...fields,
})
const leads = (asked: number, id: string, token: string): Event =>
  event(asked + 1, 'leads', id, { token, asked, state: 'leader' })
const run = (events: readonly Event[], journal: readonly Entry[]): Run => ({
  events: [...events].sort((a, b) => a.t - b.t),
  journal,
  lost: [],
  final: undefined,
})
const rulesOf = (events: readonly Event[], journal: readonly Entry[]): string[] => [
  ...new Set(check(run(events, journal)).map(({ rule }) => rule)),
]

const journal = [granted(100, '5'), freed(300, '5'), granted(400, '6'), freed(2_600, '6')]
const first = [
  event(110, 'elected', 'a-1', { token: '5' }),
  leads(150, 'a-1', '5'),
  event(290, 'ended', 'a-1', { token: '5' }),
]
const second = [
  event(410, 'elected', 'b-1', { token: '6' }),
  leads(2_500, 'b-1', '6'),
  event(2_590, 'ended', 'b-1', { token: '6' }),
]

test('a run as it should be breaks nothing', () => {
  expect(rulesOf([...first, ...second], journal)).toEqual([])
})

describe('one leads', () => {
  test('two who say so at one moment, or one after the next was granted', () => {
    expect(rulesOf([...first, leads(420, 'a-1', '5'), ...second], journal)).toContain('one-leader')
    expect(rulesOf([...first, leads(420, 'a-1', '5')], journal)).toContain('one-leader')
    expect(rulesOf([...first, leads(405, 'a-1', '5')], journal)).toEqual([])
  })

  test('a term whose commit a promotion has lost is none that was not granted', () => {
    const lost = { ...run(first, []), lost: journal.slice(0, 2) }
    expect(check(lost)).toEqual([])
  })

  test('a term that the record does not have, or below one before', () => {
    expect(rulesOf(first, [])).toContain('terms')
    const late = [event(3_000, 'elected', 'c-1', { token: '5' }), leads(3_100, 'c-1', '5')]
    expect(rulesOf([...second, ...late], journal)).toContain('terms')
    // It stood still in between, and knows.
    expect(
      rulesOf(
        [...second, ...late.slice(0, 1), event(3_100, 'ended', 'c-1', { token: '5', reason: 'expired' })],
        journal,
      ),
    ).toEqual([])
  })
})

describe('drained', () => {
  test('what is given back while its callback runs', () => {
    const [elected, leading] = first as [Event, Event]
    const ends = (t: number, reason?: string) => [
      elected,
      leading,
      event(t, 'ended', 'a-1', { token: '5', ...(reason && { reason }) }),
    ]
    expect(rulesOf([...ends(450), ...second], journal)).toEqual(['drained'])
    expect(rulesOf([...ends(450, 'expired'), ...second], journal)).toEqual([])
    expect(rulesOf([elected, leading, ...second], journal)).toEqual(['drained'])
    const killed = event(160, 'process', 'a-killed', { phase: 'fail' })
    expect(rulesOf([elected, leading, killed, ...second], journal)).toEqual([])
  })

  test('elected twice without an end between', () => {
    const [elected] = first as [Event]
    const again = [
      event(410, 'elected', 'a-1', { token: '6' }),
      event(420, 'ended', 'a-1', { token: '5', reason: 'expired' }),
      event(430, 'ended', 'a-1', { token: '6' }),
    ]
    expect(rulesOf([elected, ...again], journal)).toContain('drained')
  })
})

describe('observed', () => {
  /** Looks that are answered at once, each tenth of a second. */
  const looks = (from: number, until: number) =>
    Array.from({ length: (until - from) / 100 }, (_, i) =>
      event(from + i * 100 + 2, 'look', 'o-1', { asked: from + i * 100 }),
    )
  const observing = event(-3_000, 'observe', 'o-1', { phase: 'invoke' })
  const shown = (t: number, token?: string) => event(t, 'shown', 'o-1', token === undefined ? {} : { token })
  const all = looks(-2_000, 5_000)

  test('a term that lasted longer than the poll interval was shown', () => {
    expect(rulesOf([observing, shown(450, '6'), ...all], journal)).toEqual([])
    expect(rulesOf([observing, ...all], journal)).toEqual(['observed'])
    // A shorter one need not be.
    expect(rulesOf([observing, ...all], journal.slice(0, 2))).toEqual([])
  })

  test('not where the database did not answer, or nobody looked', () => {
    const [gap, slow] = [
      all.filter(({ t }) => t < 900 || t > 1_300),
      all.map(look => (look.t === 1_002 ? { ...look, t: 1_400 } : look)),
    ]
    expect(rulesOf([observing, ...gap], journal)).toEqual([])
    expect(rulesOf([observing, ...slow], journal)).toEqual([])
    expect(rulesOf([observing, ...looks(-2_000, 2_700)], journal)).toEqual([])
  })

  test('nor of a session that died meanwhile', () => {
    const died = entry(2_600, 'died', { key: null, session: 'session 6', detail: { expired: true } })
    expect(rulesOf([observing, ...all], [...journal.slice(0, 3), died, freed(2_600, '6')])).toEqual([])
  })

  test('tokens rise, and are those of the record', () => {
    expect(rulesOf([observing, shown(200, '6'), shown(300), shown(400, '6'), ...all], journal)).toEqual([
      'observed',
    ])
    expect(rulesOf([observing, shown(200, '6'), shown(400, '5'), ...all], journal)).toEqual(['observed'])
    expect(rulesOf([observing, shown(200, '7'), ...all], journal)).toContain('observed')
    const anew = event(350, 'observe', 'o-1', { phase: 'invoke' })
    expect(rulesOf([observing, shown(200, '6'), anew, shown(400, '6'), ...all], journal)).toEqual([])
  })
})
