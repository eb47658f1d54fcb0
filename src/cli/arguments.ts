import { InvalidArgumentError } from 'commander'
import ms, { type StringValue } from 'ms'

/** `60s`, `1.5m`, `500` (milliseconds) → milliseconds. */
export function duration(text: string): number {
  const milliseconds = text.trim() === '' ? undefined : ms(text as StringValue)
  if (milliseconds === undefined || !(milliseconds >= 0)) {
    throw new InvalidArgumentError('Want a duration such as 60s or 2m.')
  }
  return milliseconds
}

/** A whole number from `least`. */
export function wholeNumber(least: number): (text: string) => number {
  return text => {
    const number = /^\d+$/.test(text) ? Number(text) : Number.NaN
    if (number >= least) return number
    throw new InvalidArgumentError(`Want a whole number from ${least}.`)
  }
}

/** An option that may be given several times. */
export function collect(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text]
}
