import { readFileSync } from 'node:fs'
import type { Queryable } from '../../src/index.ts'

/** A line of docs/guarding.md such as `const fromDrizzle = tx => (…)`, as a function: what is told is what is tested. */
export function recipe<T>(name: string, scope: Record<string, unknown> = {}): (transaction: T) => Queryable {
  const text = readFileSync(new URL('../../docs/guarding.md', import.meta.url), 'utf8')
  const [, code] = new RegExp(`^const ${name} = (.*)$`, 'm').exec(text) ?? []
  if (code === undefined) throw new Error(`docs/guarding.md has no ${name}`)
  return new Function(...Object.keys(scope), `return ${code}`)(...Object.values(scope))
}
