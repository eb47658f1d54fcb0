// What `timetable.ts` computes, found out in another way: every minute is looked at, and asked what the clocks say.

const minute = 60_000

/** An expression, and the same as conditions on what a clock shows. */
export interface Sample {
  readonly cron: string
  /** Undefined: any, and the expression names no hours. */
  readonly hours: readonly number[] | undefined
  readonly minutes: readonly number[]
}

const every = (step: number, most: number) => Array.from({ length: most / step }, (_, i) => i * step)

export const samples: readonly Sample[] = [
  { cron: '*/15 * * * *', hours: undefined, minutes: every(15, 60) },
  { cron: '0 * * * *', hours: undefined, minutes: [0] },
  { cron: '7,37 * * * *', hours: undefined, minutes: [7, 37] },
  { cron: '30 2 * * *', hours: [2], minutes: [30] },
  { cron: '15 2 * * *', hours: [2], minutes: [15] },
  { cron: '0 0 * * *', hours: [0], minutes: [0] },
  { cron: '0,30 0-4 * * *', hours: [0, 1, 2, 3, 4], minutes: [0, 30] },
  { cron: '*/10 1,2 * * *', hours: [1, 2], minutes: every(10, 60) },
  { cron: '0 9,23 * * *', hours: [9, 23], minutes: [0] },
]

/** A zone, and the days around both changes of its clocks; of one that has none, any. */
export interface ZoneSample {
  readonly zone: string
  readonly changes: readonly string[]
}

export const zones: readonly ZoneSample[] = [
  { zone: 'Europe/Berlin', changes: ['2025-03-30', '2025-10-26'] },
  { zone: 'America/New_York', changes: ['2025-03-09', '2025-11-02'] },
  { zone: 'Australia/Lord_Howe', changes: ['2025-04-06', '2025-10-05'] },
  { zone: 'America/St_Johns', changes: ['2025-03-09', '2025-11-02'] },
  { zone: 'Africa/Cairo', changes: ['2025-04-25', '2025-10-31'] },
  { zone: 'Asia/Kathmandu', changes: ['2025-03-30'] },
  { zone: 'UTC', changes: ['2025-03-30'] },
]

/** What a zone's clocks show at a moment: `2025-03-30 01:59`. */
export function shown(zone: string): (at: number) => string {
  const format = new Intl.DateTimeFormat('sv-SE', {
    timeZone: zone,
    dateStyle: 'short',
    timeStyle: 'short',
  })
  return at => format.format(at)
}

const two = (n: number): string => String(n).padStart(2, '0')

/** The slots after `from` and up to `until`, in order. Both are whole minutes. */
export function slotsBetween(
  { hours, minutes }: Sample,
  zone: string,
  from: number,
  until: number,
): number[] {
  const show = shown(zone)
  const clock: [at: number, shows: string][] = []
  for (let at = from - 1_500 * minute; at <= until; at += minute) clock.push([at, show(at)])
  const wanted = new Set<number>()
  if (hours === undefined) {
    for (const [at, shows] of clock) if (minutes.includes(Number(shows.slice(14, 16)))) wanted.add(at)
  } else {
    const days = new Set(clock.map(([, shows]) => shows.slice(0, 10)))
    for (const day of days) {
      for (const hour of hours) {
        for (const minute of minutes) {
          const named = `${day} ${two(hour)}:${two(minute)}`
          // The first time that the clocks show it, or else something later.
          const first = clock.find(([, shows]) => shows === named) ?? clock.find(([, shows]) => shows > named)
          if (first && clock[0]?.[1] !== undefined && named > clock[0][1]) wanted.add(first[0])
        }
      }
    }
  }
  return [...wanted].filter(at => at > from && at <= until).sort((a, b) => a - b)
}
