// Who is gone, and for how long, by the answers that one process has had.
import { describe, expect, test } from 'vitest'
import type { Peer } from '../../../src/database/presence-calls.ts'
import { Absences } from '../../../src/election/presence/absences.ts'

const grace = 1_000

const peer = (id: string, isAbsent: boolean, generation = '1'): Peer => ({
  id,
  generation,
  grace,
  isAbsent,
  holds: id === 'leader',
})
const gone = (generation?: string) => peer('leader', true, generation)
const there = (generation?: string) => peer('leader', false, generation)
/** Of others, who are there all the time: one that vanishes is not many. */
const others = [peer('a', false), peer('b', false), peer('c', false)]

/** What was answered, each 100 ms after the last. @returns when the leader may be buried */
function dueAfter(leader: readonly (Peer | undefined)[], rest: readonly Peer[] = others): number | undefined {
  const absences = new Absences()
  for (const [i, one] of leader.entries()) absences.note(one ? [one, ...rest] : rest, i * 100)
  return absences.dueAt(gone())
}

describe('an absence', () => {
  test('is due a grace after the first answer that told of it', () => {
    expect(dueAfter([gone()])).toBe(grace)
    expect(dueAfter([there(), there(), gone(), gone(), gone()])).toBe(200 + grace)
  })

  test('is none of who is there, or is not known', () => {
    expect(dueAfter([there()])).toBeUndefined()
    expect(dueAfter([undefined])).toBeUndefined()
  })

  test('is over when it is there once', () => {
    expect(dueAfter([gone(), gone(), there()])).toBeUndefined()
    expect(dueAfter([gone(), gone(), there(), gone()])).toBe(300 + grace)
  })

  test('begins anew in another generation: it was there in between, and trusted', () => {
    expect(dueAfter([gone('1'), gone('1'), gone('2'), gone('2')])).toBe(200 + grace)
  })

  test('begins anew after a gap', () => {
    const absences = new Absences()
    for (const at of [0, 100, 350, 600]) absences.note([gone(), ...others], at)
    expect(absences.dueAt(gone())).toBe(grace)
    absences.note([gone(), ...others], 851)
    expect(absences.dueAt(gone())).toBe(851 + grace)
  })

  test('begins anew where it was not told of in between', () => {
    expect(dueAfter([gone(), undefined, undefined, gone()])).toBe(300 + grace)
  })

  test('begins anew on another connection', () => {
    const absences = new Absences()
    absences.note([gone(), ...others], 0)
    absences.forget()
    expect(absences.dueAt(gone())).toBeUndefined()
    absences.note([gone(), ...others], 100)
    expect(absences.dueAt(gone())).toBe(100 + grace)
  })
})

describe('who vanishes with most of the others', () => {
  const all = (absent: readonly string[], generation = '1') =>
    ['leader', 'a', 'b', 'c'].map(id => peer(id, absent.includes(id), absent.includes(id) ? '1' : generation))

  /** @param answers who is gone by each, a tenth of a grace apart */
  function due(answers: readonly (readonly string[])[]): number | undefined {
    const absences = new Absences()
    for (const [i, absent] of answers.entries()) absences.note(all(absent), i * 100)
    return absences.dueAt(gone())
  }

  test('is never due: three of four, at once or within a grace', () => {
    expect(due([[], ['leader', 'a', 'b']])).toBeUndefined()
    expect(due([[], ['leader'], ['leader', 'a'], ['leader', 'a', 'b']])).toBeUndefined()
    expect(due([[], ['a', 'b'], ['leader', 'a', 'b']])).toBeUndefined()
  })

  test('is never due though the others are back by then, in a generation of their own', () => {
    const absences = new Absences()
    absences.note(all([]), 0)
    absences.note(all(['leader', 'a', 'b']), 100)
    for (let at = 200; at <= 2_200; at += 100) {
      absences.note(all(['leader'], '2'), at)
      expect(absences.dueAt(gone())).toBeUndefined()
    }
  })

  test('is never due though nobody saw the others gone: their generations tell', () => {
    const absences = new Absences()
    absences.note(all([]), 0)
    absences.note(all(['leader'], '2'), 100)
    expect(absences.dueAt(gone())).toBeUndefined()
  })

  test('is due where it is half of them, or one of two', () => {
    expect(due([[], ['leader', 'a']])).toBe(100 + grace)
    const absences = new Absences()
    absences.note([there(), peer('a', false)], 0)
    absences.note([gone(), peer('a', false)], 100)
    expect(absences.dueAt(gone())).toBe(100 + grace)
  })

  test('is due where the others vanish more than a grace later, or came later', () => {
    const absences = new Absences()
    absences.note(all([]), 0)
    for (let at = 100; at <= 1_200; at += 100) absences.note(all(['leader']), at)
    absences.note(all(['leader', 'a', 'b']), 1_300)
    expect(absences.dueAt(gone())).toBe(100 + grace)
    // Who was not there does not make it one of few either.
    const late = new Absences()
    late.note([there(), peer('a', false)], 0)
    late.note([gone(), peer('a', true)], 100)
    late.note([gone(), peer('a', true), ...['x', 'y', 'z'].map(id => peer(id, false))], 200)
    expect(late.dueAt(gone())).toBeUndefined()
  })

  test('may be due once it is back, and gone alone', () => {
    const absences = new Absences()
    absences.note(all([]), 0)
    absences.note(all(['leader', 'a', 'b']), 100)
    for (let at = 200; at <= 3_000; at += 100) absences.note(all([], '2'), at)
    absences.note([gone('2'), ...others.map(({ id }) => peer(id, false, '2'))], 3_100)
    expect(absences.dueAt(gone())).toBe(3_100 + grace)
  })
})
