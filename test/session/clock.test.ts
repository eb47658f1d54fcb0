import { afterEach, describe, expect, test, vi } from 'vitest'
import { type Moment, now, type Reading, trustAt, wasStepped } from '../../src/session/clock.ts'

afterEach(() => vi.restoreAllMocks())

/** Sets both clocks of this process. */
function setClocks(monotonic: number, wall: number): void {
  vi.spyOn(performance, 'now').mockReturnValue(monotonic)
  vi.spyOn(Date, 'now').mockReturnValue(wall)
}

test('a moment is read from both clocks', () => {
  setClocks(12.5, 1_700_000_000_000)
  expect(now()).toEqual({ monotonic: 12.5, wall: 1_700_000_000_000 })
})

describe('trust of 1,000 ms', () => {
  const since: Moment = { monotonic: 5_000, wall: 1_700_000_000_000 }
  test.each([
    { monotonic: 0, wall: 0, trust: 'trusted' },
    { monotonic: 999, wall: 999, trust: 'trusted' },
    { monotonic: 1_000, wall: 1_000, trust: 'over' },
    { monotonic: 1_000, wall: 0, trust: 'over' },
    { monotonic: 1_000, wall: -600_000, trust: 'over' },
    { monotonic: 10, wall: 999, trust: 'trusted' },
    { monotonic: 10, wall: 1_000, trust: 'suspended' },
    { monotonic: 10, wall: 600_000, trust: 'suspended' },
    { monotonic: 10, wall: -1_000, trust: 'trusted' },
    { monotonic: 10, wall: -1_001, trust: 'suspended' },
    { monotonic: 10, wall: -600_000, trust: 'suspended' },
  ])('after $monotonic ms by the monotonic clock and $wall ms by the wall clock: $trust', passed => {
    setClocks(since.monotonic + passed.monotonic, since.wall + passed.wall)
    expect(trustAt(since, 1_000)).toBe(passed.trust)
  })
})

describe('the server’s clock was stepped', () => {
  /** An answer that was read by the server `after` ms after it was sent and came `took` ms after that sending. */
  const reading = (sent: number, took: number, serverTime: number, wallOffset = 0): Reading => ({
    sent: { monotonic: sent, wall: sent + wallOffset },
    answered: { monotonic: sent + took, wall: sent + took + wallOffset },
    serverTime,
  })
  const first = reading(1_000, 10, 50_000)

  test.each([
    ['it went on as ours', 11_000, 10, 60_000, false],
    ['it is ahead by as much as a slow reply may explain', 11_000, 500, 61_500, false],
    ['it is behind by as much as a slow first reply may explain', 11_000, 10, 59_000, false],
    ['it is ahead by a second and what the delays allow', 11_000, 10, 61_010, false],
    ['it is ahead by more', 11_000, 10, 61_021, true],
    ['it is behind by a second and what the delays allow', 11_000, 10, 58_990, false],
    ['it is behind by more', 11_000, 10, 58_989, true],
    ['it went back by an hour', 11_000, 10, 60_000 - 3_600_000, true],
    ['it went ahead by an hour', 11_000, 10, 60_000 + 3_600_000, true],
  ])('%s', (_, sent, took, serverTime, stepped) => {
    expect(wasStepped(first, reading(sent, took, serverTime))).toBe(stepped)
  })

  test('not where our own two clocks disagree: one of ours was moved', () => {
    const second = reading(11_000, 10, 60_000 + 3_600_000)
    expect(wasStepped(first, { ...second, answered: { ...second.answered, wall: 11_010 + 600 } })).toBe(false)
    expect(wasStepped(first, { ...second, answered: { ...second.answered, wall: 11_010 - 600 } })).toBe(false)
    expect(wasStepped(first, { ...second, answered: { ...second.answered, wall: 11_010 + 400 } })).toBe(true)
  })
})
