import { InvalidArgumentError } from 'commander'

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

/** A fencing token. */
export function wholeToken(text: string): bigint {
  if (/^\d{1,19}$/.test(text)) return BigInt(text)
  throw new InvalidArgumentError('Want a token: a whole number.')
}
