import type { Asked, Witness } from './answers.ts'

/** An argument's name, its value as a parameter, and how `invoke` gets it as JSON, where that differs. */
export type Argument = readonly [name: string, value: unknown, json?: () => unknown]

export function seenBy({ base, serverTime, elapsed }: Witness): Argument {
  return serverTime === undefined
    ? ['seen', `(${base},,)`, () => ({ base })]
    : ['seen', `(${base},${serverTime},${elapsed})`, () => ({ base, server_time: serverTime, elapsed })]
}

/** Quoted in one go, for hardly any key has a character in it that must be escaped. */
export function textsOf(name: string, values: readonly string[]): Argument {
  if (values.length === 0) return [name, '{}', () => values]
  const isPlain = !/["\\]/.test(values.join(''))
  const escaped = isPlain ? values : values.map(value => value.replace(/["\\]/g, '\\$&'))
  return [name, `{"${escaped.join('","')}"}`, () => values]
}

/** Of values that need no quoting in an array: ids and tokens. */
function listOf(name: string, values: readonly string[]): Argument {
  return [name, `{${values.join(',')}}`, () => values]
}

export function labelsOf(asked: readonly Asked[]): Argument {
  const isAny = asked.some(one => one.label !== undefined)
  return ['labels', isAny ? asked.map(one => one.label ?? null) : undefined]
}

export function metadataOf(asked: readonly Asked[]): Argument {
  if (asked.every(one => one.metadata === undefined)) return ['metadata', undefined]
  const texts = asked.map(one => one.metadata ?? null)
  return ['metadata', texts, () => texts.map(one => (one === null ? null : JSON.parse(one)))]
}

export function termsOf(asked: readonly Asked[]): Argument {
  if (asked.every(one => one.terms === undefined)) return ['asks', undefined]
  const texts = asked.map(one => one.terms ?? null)
  return ['asks', texts, () => texts.map(one => (one === null ? null : JSON.parse(one)))]
}

export interface ForKeys {
  readonly key: string
  readonly keys: readonly string[] | undefined
  readonly id: string
}

/** One for several keys, once for each. */
export function eachKey<R extends ForKeys>(requests: readonly R[]): readonly R[] {
  if (requests.every(({ keys }) => keys === undefined)) return requests
  return requests.flatMap(request => {
    const { keys, id } = request
    if (keys === undefined) return [request]
    const { waits, label, metadata, terms } = request as unknown as Asked
    return keys.map(key => ({ key, keys, id, waits, label, metadata, terms }) as unknown as R)
  })
}

export const keysOf = (of: readonly { readonly key: string }[]): Argument =>
  textsOf(
    'keys',
    of.map(one => one.key),
  )
export const tokensOf = (of: readonly { readonly token: string }[]): Argument =>
  listOf(
    'tokens',
    of.map(one => one.token),
  )
export const requestsOf = (of: readonly { readonly id: string }[]): Argument =>
  listOf(
    'requests',
    of.map(one => one.id),
  )
/** Requests, by their ids. */
export const passedOf = (ids: readonly string[]): Argument =>
  ids.length === 0 ? ['passed', undefined] : listOf('passed', ids)
