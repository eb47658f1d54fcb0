import { describe, expect, test } from 'vitest'
import type { Entry, Event, Run } from './history.ts'
import { ticksOnce } from './ticks.ts'

const slot = '2026-01-01T00:00:01.000Z'
let seq = 0
const entry = (event: string, fields: Partial<Entry>): Entry => ({
  seq: ++seq,
  at: seq,
  xid: '1',
  event,
  key: null,
  session: null,
  request: null,
  token: null,
  label: null,
  detail: {},
  ...fields,
})
const granted = (token: string): Entry => entry('granted', { key: 's:schedule', token })
const freed = (token: string): Entry => entry('freed', { key: 's:schedule', token })
const tick = (was: string | null, state: string, attempt = 0, token: string | null = null): Entry =>
  entry('tick', { token, detail: { name: 's', slot, was, state, attempt } })
const began = (process: string, attempt: number, token: string): Event => ({
  t: seq,
  process,
  op: 'tick',
  id: `${process}-1`,
  phase: 'invoke',
  key: 's',
  slot,
  attempt,
  token,
})
const found = (
  journal: readonly Entry[],
  events: readonly Event[] = [],
  lost: readonly Entry[] = [],
): string[] => {
  const run: Run = { journal, events, lost, final: undefined }
  return ticksOnce(run).map(({ story }) => story.replace(/ \(journal \d+\)$/, ''))
}

describe('ticks', () => {
  test('are as they should be: started under the lease, lost, started again under the next, finished', () => {
    const journal = [
      granted('1'),
      tick(null, 'due'),
      tick('due', 'started', 1, '1'),
      granted('2'),
      tick('started', 'due', 1, '1'),
      tick('due', 'started', 2, '2'),
      tick('started', 'finished', 2, '2'),
      freed('2'),
    ]
    expect(found(journal, [began('a', 1, '1'), began('b', 2, '2')])).toEqual([])
  })

  test('a start under a lease that is lost, or given back, is found', () => {
    expect(found([granted('1'), granted('2'), tick(null, 'due'), tick('due', 'started', 1, '1')])).toEqual([
      `${slot} was started under token 1, and the lease was held under 2`,
    ])
    expect(found([granted('1'), freed('1'), tick(null, 'due'), tick('due', 'started', 1, '1')])).toEqual([
      `${slot} was started under token 1, and the lease was held under none`,
    ])
  })

  test('a slot that is decided twice, and an attempt that was there before, are found', () => {
    const journal = [
      granted('1'),
      tick(null, 'due'),
      tick('due', 'started', 1, '1'),
      tick(null, 'due'),
      tick('due', 'started', 1, '1'),
      tick('due', 'started', 1, '1'),
    ]
    expect(found(journal)).toEqual([
      `${slot} was decided twice`,
      `${slot} was started as attempt 1, which would be its attempt 2`,
    ])
  })

  test('one that a promotion has lost is run again', () => {
    const journal = [granted('2'), tick(null, 'due'), tick('due', 'started', 1, '2')]
    const lost = [granted('1'), tick(null, 'due'), tick('due', 'started', 1, '1')]
    expect(found(journal, [began('a', 1, '1'), began('b', 1, '2')], lost)).toEqual([])
  })

  test('an attempt that two processes run, and one that was never started, are found', () => {
    const journal = [granted('1'), tick(null, 'due'), tick('due', 'started', 1, '1')]
    expect(found(journal, [began('a', 1, '1'), began('b', 1, '1'), began('c', 2, '1')])).toEqual([
      `b ran attempt 1 at ${slot}, which a had run`,
      `c ran attempt 2 at ${slot} under token 1, which the database has not started`,
    ])
  })
})
