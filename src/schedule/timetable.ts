/**
 * Which moments a cron expression names in a time zone: pure arithmetic, the same in every process. The expression is read
 * by croner, as of a clock that never changes; what becomes of it where a zone's clocks do is decided here, for a slot is
 * what all processes must agree on, whichever version of a dependency they have.
 *
 *   an expression that names its hours (`30 2 * * *`): each time that it names, once a day
 *     not there, for the clocks go forward over it: at the moment at which they do
 *     there twice, for the clocks go back: the first time
 *   one that does not (`0,30 * * * *`: its hours begin with a star): as time passes, whatever the clocks say of it
 *     not there: not. There twice: twice
 */
import { Cron } from 'croner'
import { BadOptionError } from '../errors.ts'
import { Zone } from './zone.ts'

const day = 86_400_000

export class Timetable {
  readonly #cron: Cron
  readonly #zone: Zone
  readonly #namesHours: boolean

  /** @throws BadOptionError */
  constructor(expression: string, timezone: string) {
    this.#zone = new Zone(timezone)
    this.#cron = read(expression)
    this.#namesHours = namesHours(expression)
  }

  /** The first slot after a moment, in milliseconds since 1970; undefined: there is none any more. */
  next(after: number): number | undefined {
    let steady = this.#zone.steady(after)
    let wall = this.#match(after + steady.offset)
    while (wall !== undefined) {
      const slot = wall - steady.offset
      if (slot > steady.until) {
        const { until, offset } = steady
        steady = this.#zone.steady(until + 1)
        if (steady.offset === offset) continue
        const change = until + 1
        if (this.#namesHours && wall < change + steady.offset) return change
        wall = this.#match(until + steady.offset)
      } else if (this.#namesHours && this.#isAgain(wall, slot)) wall = this.#match(wall)
      else return slot
    }
    return undefined
  }

  /** Whether a time of the wall clock has been before, by the offset of the day before. */
  #isAgain(wall: number, slot: number): boolean {
    const before = this.#zone.offset(slot - day)
    return before > this.#zone.offset(slot) && this.#zone.offset(wall - before) === before
  }

  #match(wall: number): number | undefined {
    return this.#cron.nextRun(new Date(wall))?.getTime()
  }
}

function read(expression: string): Cron {
  // What has a colon in it croner takes for one date, and `@reboot` is no time.
  if (typeof expression !== 'string' || expression.includes(':') || /^\s*@reboot/i.test(expression)) {
    throw refuse(expression, 'no times')
  }
  let cron: Cron
  try {
    cron = new Cron(expression, { utcOffset: 0, paused: true })
  } catch (cause) {
    throw refuse(expression, (cause as Error).message, cause)
  }
  if (cron.nextRun() === null) throw refuse(expression, 'that time never comes')
  return cron
}

function refuse(expression: unknown, why: string, cause?: unknown): BadOptionError {
  return new BadOptionError(
    `cron: want an expression such as "*/10 * * * *" or "30 2 * * MON"; got ${JSON.stringify(expression)}: ${why}`,
    { cause },
  )
}

/** Of five fields the second is the hours'; of six or seven, where the first are seconds, the third. */
function namesHours(expression: string): boolean {
  const fields = expression.trim().split(/\s+/)
  if (fields.length === 1) return !/^@hourly$/i.test(expression.trim())
  const hours = fields[fields.length > 5 ? 2 : 1] as string
  return !/^[*?]/.test(hours)
}
