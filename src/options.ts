import ms from 'ms'
import { BadKeyError, BadOptionError } from './errors.ts'

/** Milliseconds, or text such as `"15s"`, `"2m"`, `"1500ms"`. */
export type Duration = number | string

/** @throws BadOptionError with the bounds */
export function milliseconds(name: string, value: Duration, least: number, most: number): number {
  const read = typeof value === 'string' ? parse(value) : value
  if (typeof read !== 'number' || Number.isNaN(read) || read < least || read > most) {
    const bound = most === Number.POSITIVE_INFINITY ? `at least ${least} ms` : `${least} to ${most} ms`
    throw new BadOptionError(`${name}: want ${bound}, or text such as "15s"; got ${show(value)}`)
  }
  return read
}

// It throws for empty and for very long text, and answers undefined for other text that is no duration.
function parse(text: string): number | undefined {
  return text === '' || text.length > 100 ? undefined : ms(text as ms.StringValue)
}

/** @throws BadOptionError */
export function wholeNumber(name: string, value: number): number {
  if (Number.isInteger(value) && value >= 1) return value
  if (value === Number.POSITIVE_INFINITY) return value
  throw new BadOptionError(`${name}: want a whole number from 1; got ${show(value)}`)
}

const longestKey = 1_000
const longestLabel = 200
const longestMetadata = 1_000
const longestReason = 1_000
// JSON.stringify escapes NUL, and of the surrogates only those that stand alone; what jsonb cannot store, in other words.
const unstorable = /(?<!\\)(?:\\\\)*\\u(?:d[89a-f][0-9a-f]{2}|0000)/i

/** The key as the database knows it: a namespace is a prefix of it. @throws BadKeyError */
export function fullKey(namespace: string | undefined, key: unknown): string {
  if (typeof key !== 'string') throw new BadKeyError(`a key is a string; got ${show(key)}`)
  if (key === '') throw new BadKeyError('a key is not empty')
  const full = namespace === undefined ? key : `${namespace}:${key}`
  if (full.includes('\0')) throw new BadKeyError('a key has no NUL in it')
  if (!isWellFormed(full)) throw new BadKeyError('a key is Unicode: it has half a surrogate pair in it')
  const bytes = Buffer.byteLength(full)
  if (bytes > longestKey) {
    throw new BadKeyError(
      `a key has at most ${longestKey} bytes in UTF-8, its namespace included; this one has ${bytes}`,
    )
  }
  return full
}

/** @throws BadOptionError */
export function checkNamespace(namespace: string | undefined): string | undefined {
  if (namespace === undefined) return undefined
  if (
    typeof namespace !== 'string' ||
    namespace === '' ||
    namespace.includes(':') ||
    Buffer.byteLength(namespace) > 200
  ) {
    throw new BadOptionError(`namespace: want 1 to 200 bytes without a colon; got ${show(namespace)}`)
  }
  if (namespace.includes('\0') || !isWellFormed(namespace)) {
    throw new BadOptionError('namespace: want Unicode without NUL')
  }
  return namespace
}

/** @throws BadOptionError */
export function checkLabel(name: 'label' | 'owner', label: string | undefined): string | undefined {
  if (label === undefined) return undefined
  const fits = typeof label === 'string' && !label.includes('\0') && isWellFormed(label)
  if (!fits || Buffer.byteLength(label) > longestLabel) {
    throw new BadOptionError(`${name}: want text of at most ${longestLabel} bytes of Unicode without NUL`)
  }
  return label
}

/** @throws BadOptionError */
export function checkReason(reason: string): string {
  const fits = typeof reason === 'string' && !reason.includes('\0') && isWellFormed(reason)
  if (!fits || reason.trim() === '' || Buffer.byteLength(reason) > longestReason) {
    throw new BadOptionError(`reason: want text of 1 to ${longestReason} bytes of Unicode without NUL`)
  }
  return reason
}

/** @throws BadOptionError */
export function checkMetadata(metadata: unknown): unknown {
  checkJson('metadata', metadata, longestMetadata)
  return metadata
}

/** A value as JSON. @param most bytes @throws BadOptionError */
export function checkJson(name: string, value: unknown, most: number): string | undefined {
  if (value === undefined) return undefined
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (cause) {
    throw new BadOptionError(`${name}: want what JSON can hold`, { cause })
  }
  if (text === undefined || unstorable.test(text) || Buffer.byteLength(text) > most) {
    throw new BadOptionError(
      `${name}: want JSON of at most ${most} bytes, without NUL and without half a surrogate pair`,
    )
  }
  return text
}

/** Half a surrogate pair would be stored as another character. */
export function isWellFormed(text: string): boolean {
  return (text as string & { isWellFormed(): boolean }).isWellFormed()
}

function show(value: unknown): string {
  const isObject = typeof value === 'object' || typeof value === 'function'
  const text =
    typeof value === 'string'
      ? JSON.stringify(value)
      : isObject
        ? Object.prototype.toString.call(value)
        : String(value)
  return text.length > 60 ? `${text.slice(0, 60)}…` : text
}

/** @throws BadOptionError for what is no object */
export function checkOptions<T extends object>(options: T): T {
  if (typeof options === 'object' && options !== null) return options
  throw new BadOptionError(`options: want an object; got ${show(options)}`)
}
