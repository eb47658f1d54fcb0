import { describe, expect, test } from 'vitest'
import { Timetable } from '../../src/schedule/timetable.ts'
import { samples, shown, slotsBetween, zones } from './zones.ts'

const hour = 3_600_000

function slots(cron: string, zone: string, from: number, until: number): number[] {
  const timetable = new Timetable(cron, zone)
  const found: number[] = []
  let slot = timetable.next(from)
  while (slot !== undefined && slot <= until) {
    found.push(slot)
    slot = timetable.next(slot)
  }
  return found
}

/** What the clocks show at the slots of one local day, or whatever the two moments bound. */
function clocks(cron: string, zone: string, from: string, until: string): string[] {
  const show = shown(zone)
  return slots(cron, zone, Date.parse(from), Date.parse(until)).map(at => show(at).slice(11))
}

describe('where the clocks go forward', () => {
  // Berlin, 2025-03-30: from 01:59:59 to 03:00:00, at 01:00 UTC.
  const day = ['2025-03-29T23:00Z', '2025-03-30T21:59Z'] as const

  test('a time that is named and not there comes at the moment of the change, once', () => {
    expect(clocks('30 2 * * *', 'Europe/Berlin', ...day)).toEqual(['03:00'])
    expect(clocks('*/10 2 * * *', 'Europe/Berlin', ...day)).toEqual(['03:00'])
    expect(clocks('30 1-4 * * *', 'Europe/Berlin', ...day)).toEqual(['01:30', '03:00', '03:30', '04:30'])
  })

  test('one that is there as well at that moment comes once', () => {
    expect(clocks('0 2,3 * * *', 'Europe/Berlin', ...day)).toEqual(['03:00'])
  })

  test('where no hours are named, what is not there is not made up for', () => {
    expect(clocks('30 * * * *', 'Europe/Berlin', ...day).slice(0, 3)).toEqual(['00:30', '01:30', '03:30'])
  })

  test('by half an hour: Lord Howe', () => {
    // 2025-10-05: from 01:59:59 to 02:30:00, at 15:30 UTC of the day before.
    const lordHowe = ['2025-10-04T13:30Z', '2025-10-05T12:59Z'] as const
    expect(clocks('15 2 * * *', 'Australia/Lord_Howe', ...lordHowe)).toEqual(['02:30'])
    expect(clocks('45 2 * * *', 'Australia/Lord_Howe', ...lordHowe)).toEqual(['02:45'])
    expect(clocks('0 * * * *', 'Australia/Lord_Howe', ...lordHowe).slice(0, 3)).toEqual([
      '01:00',
      '03:00',
      '04:00',
    ])
  })

  test('over midnight: Cairo', () => {
    expect(clocks('0 0 * * *', 'Africa/Cairo', '2025-04-24T12:00Z', '2025-04-25T12:00Z')).toEqual(['01:00'])
  })
})

describe('where the clocks go back', () => {
  // Berlin, 2025-10-26: from 02:59:59 to 02:00:00, at 01:00 UTC.
  const day = ['2025-10-25T22:00Z', '2025-10-26T22:59Z'] as const

  test('a time that is named and there twice comes the first time, once', () => {
    const [slot, ...others] = slots('30 2 * * *', 'Europe/Berlin', Date.parse(day[0]), Date.parse(day[1]))
    expect([new Date(slot as number).toISOString(), others]).toEqual(['2025-10-26T00:30:00.000Z', []])
    expect(clocks('30 1-4 * * *', 'Europe/Berlin', ...day)).toEqual(['01:30', '02:30', '03:30', '04:30'])
  })

  test('asked between the two, and at the second, the next one is on the next day', () => {
    const timetable = new Timetable('30 2 * * *', 'Europe/Berlin')
    for (const after of ['00:45', '01:10', '01:29', '01:30', '01:31', '03:00']) {
      const next = timetable.next(Date.parse(`2025-10-26T${after}Z`))
      expect(new Date(next as number).toISOString(), after).toBe('2025-10-27T01:30:00.000Z')
    }
  })

  test('where no hours are named, it comes twice: time passes', () => {
    expect(clocks('30 * * * *', 'Europe/Berlin', ...day).slice(0, 5)).toEqual([
      '00:30',
      '01:30',
      '02:30',
      '02:30',
      '03:30',
    ])
  })

  test('by half an hour: Lord Howe', () => {
    // 2025-04-06: from 01:59:59 to 01:30:00, at 15:00 UTC of the day before.
    const lordHowe = ['2025-04-05T13:00Z', '2025-04-06T13:29Z'] as const
    expect(clocks('45 1 * * *', 'Australia/Lord_Howe', ...lordHowe)).toEqual(['01:45'])
    expect(clocks('45 * * * *', 'Australia/Lord_Howe', ...lordHowe).slice(0, 4)).toEqual([
      '00:45',
      '01:45',
      '01:45',
      '02:45',
    ])
  })
})

describe.each(zones)('$zone, as found by looking at each minute', ({ zone, changes }) => {
  test.each(samples)('$cron', sample => {
    for (const change of changes) {
      const [from, until] = [Date.parse(change) - 36 * hour, Date.parse(change) + 60 * hour]
      const expected = slotsBetween(sample, zone, from, until)
      expect(expected.length).toBeGreaterThan(2)
      const found = slots(sample.cron, zone, from, until)
      expect(found.map(at => new Date(at).toISOString())).toEqual(
        expected.map(at => new Date(at).toISOString()),
      )
    }
  })
})

test('asked at any moment, the answer is the first slot after it', () => {
  for (const { zone, changes } of zones) {
    for (const sample of samples) {
      const timetable = new Timetable(sample.cron, zone)
      for (const change of changes) {
        const [from, until] = [Date.parse(change) - 36 * hour, Date.parse(change) + 60 * hour]
        const expected = slotsBetween(sample, zone, from, until)
        const last = expected.at(-1) as number
        for (let after = from; after < last; after += 31 * 60_000 + 13) {
          const next = expected.find(slot => slot > after)
          expect(timetable.next(after), `${sample.cron} ${zone} ${new Date(after).toISOString()}`).toBe(next)
        }
      }
    }
  }
})

test('far ahead, and not at all any more', () => {
  const leap = new Timetable('0 12 29 2 *', 'Europe/Berlin')
  expect(leap.next(Date.parse('2024-02-29T11:00Z'))).toBe(Date.parse('2028-02-29T11:00Z'))
  const summer = new Timetable('30 * 1 7 *', 'Europe/Berlin')
  expect(summer.next(Date.parse('2025-01-01T00:00Z'))).toBe(Date.parse('2025-06-30T22:30Z'))
  const ends = new Timetable('0 0 0 1 1 * 2099', 'UTC')
  expect(ends.next(Date.parse('2099-01-01T00:00Z'))).toBeUndefined()
})

test('seconds, names and nicknames', () => {
  const next = (cron: string) =>
    new Timetable(cron, 'Asia/Kathmandu').next(Date.parse('2025-03-30T12:00:00Z'))
  expect(next('*/5 * * * * *')).toBe(Date.parse('2025-03-30T12:00:05Z'))
  expect(next('@hourly')).toBe(Date.parse('2025-03-30T12:15Z'))
  expect(next('@daily')).toBe(Date.parse('2025-03-30T18:15Z'))
  expect(next('15 9 * * MON')).toBe(Date.parse('2025-03-31T03:30Z'))
  expect(next('0 12 L * *')).toBe(Date.parse('2025-03-31T06:15Z'))
})

test.each([
  ['not cron at all', 'UTC'],
  ['', 'UTC'],
  ['61 * * * *', 'UTC'],
  ['* * * *', 'UTC'],
  ['* * * * * * * *', 'UTC'],
  ['2025-01-01T00:00:00', 'UTC'],
  ['@reboot', 'UTC'],
  ['0 0 30 2 *', 'UTC'],
  ['0 0 0 1 1 * 2001', 'UTC'],
  [7 as unknown as string, 'UTC'],
])('refused in words: %j', (cron, zone) => {
  expect(() => new Timetable(cron, zone)).toThrow(
    expect.objectContaining({
      code: 'bad_option',
      message: expect.stringMatching(/^cron: want an expression such as .*; got /),
    }),
  )
})

test.each(['Nowhere/At_all', '', 'CET CEST'])('a zone that there is not: %j', zone => {
  expect(() => new Timetable('* * * * *', zone)).toThrow(
    expect.objectContaining({
      code: 'bad_option',
      message: expect.stringContaining('timezone: want a name'),
    }),
  )
})
