import { BadOptionError } from '../errors.ts'

/** Between two changes of a zone's clocks lies more than this. */
const stride = 7 * 86_400_000

interface Steady {
  readonly from: number
  /** The last millisecond of it that is known of. */
  readonly until: number
  /** What the clocks are ahead of UTC. */
  readonly offset: number
}

/** How a time zone's clocks go. All times are milliseconds since 1970; those of a wall clock, as if it were UTC. */
export class Zone {
  readonly name: string
  readonly #format: Intl.DateTimeFormat
  /** Found last: slots are asked for in order, and to read a clock costs more than all the rest. */
  #steady: Steady = { from: 0, until: -1, offset: 0 }

  /** @param name of the IANA database, such as `Europe/Berlin` @throws BadOptionError */
  constructor(name: string) {
    this.name = name
    try {
      this.#format = new Intl.DateTimeFormat('en-US', {
        timeZone: name,
        hourCycle: 'h23',
        year: 'numeric',
        month: 'numeric',
        day: 'numeric',
        hour: 'numeric',
        minute: 'numeric',
        second: 'numeric',
      })
    } catch (cause) {
      throw new BadOptionError(
        `timezone: want a name of the IANA database, such as "Europe/Berlin"; got ${JSON.stringify(name)}`,
        { cause },
      )
    }
  }

  /** What the zone's clocks are ahead of UTC at a moment. */
  offset(at: number): number {
    const { from, until, offset } = this.#steady
    return at >= from && at <= until ? offset : this.#read(at)
  }

  /** A time from a moment on, or around it, in which the clocks have one offset. */
  steady(at: number): Steady {
    const known = this.#steady
    if (at >= known.from && at <= known.until) return known
    const offset = this.#read(at)
    let until = at + stride
    if (this.#read(until) !== offset) {
      let low = at
      while (until - low > 1) {
        const middle = Math.floor((low + until) / 2)
        if (this.#read(middle) === offset) low = middle
        else until = middle
      }
      until = low
    }
    this.#steady = { from: at, until, offset }
    return this.#steady
  }

  #read(at: number): number {
    const second = Math.floor(at / 1_000) * 1_000
    const parts = new Map(this.#format.formatToParts(second).map(({ type, value }) => [type, Number(value)]))
    const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) as number
    const [year, month, day] = [part('year'), part('month'), part('day')]
    return Date.UTC(year, month - 1, day, part('hour'), part('minute'), part('second')) - second
  }
}
