import { isWellFormed } from '../options.ts'

/** Why JSON cannot hold a value, in words; undefined: it can, and gives the same back. */
export function whyNoJson(value: unknown): string | undefined {
  return look(value, 'it', [])
}

function look(value: unknown, path: string, around: readonly object[]): string | undefined {
  if (value === null || typeof value === 'boolean') return undefined
  if (typeof value === 'string')
    return isWellFormed(value) ? undefined : `${path} has half a surrogate pair in it`
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : `${path} is ${value}`
  if (typeof value !== 'object')
    return `${path} is ${value === undefined ? 'undefined' : `a ${typeof value}`}`
  if (around.includes(value)) return `${path} is inside of itself`
  const inside = [...around, value]
  if (Array.isArray(value)) {
    return firstOf(value.keys(), i => look(value[i], `${path}[${i}]`, inside))
  }
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null)
    return `${path} is a ${value.constructor?.name || 'class of its own'}`
  // What is undefined is left out, and that is what reading it would give.
  const fields = Object.entries(value).filter(([, field]) => field !== undefined)
  return firstOf(fields, ([name, field]) =>
    isWellFormed(name)
      ? look(field, `${path}.${name}`, inside)
      : `${path} has a name with half a surrogate pair in it`,
  )
}

function firstOf<T>(items: Iterable<T>, find: (item: T) => string | undefined): string | undefined {
  for (const item of items) {
    const found = find(item)
    if (found !== undefined) return found
  }
  return undefined
}
