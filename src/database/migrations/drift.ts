import type { SchemaShape } from './shape.ts'

/**
 * What differs between the schema as it is and as it was shipped, one line a difference.
 *
 * What is in the schema but was not shipped counts only where it belongs to something that was: another index or
 * trigger on one of our tables, another function of the same name. A table of the user's own beside ours does not.
 */
export function findDrift(actual: SchemaShape, shipped: SchemaShape): string[] {
  const owners = new Set(Object.keys(shipped).map(ownerOf))
  const missing = Object.keys(shipped).filter(item => !(item in actual))
  const changed = Object.keys(shipped).filter(item => item in actual && actual[item] !== shipped[item])
  const unexpected = Object.keys(actual).filter(item => !(item in shipped) && owners.has(ownerOf(item)))
  return [
    ...missing.map(item => `missing: ${item}`),
    ...changed.map(item => `changed: ${item}`),
    ...unexpected.map(item => `unexpected: ${item}`),
  ].sort()
}

/** `function release(uuid)` → `function release`; `index locks.by_key` → `locks`; `table locks` → `locks`. */
function ownerOf(item: string): string {
  const [, kind, name] = /^(function|\S+) ([^(.]+)/.exec(item) ?? []
  return kind === 'function' ? `function ${name}` : (name ?? item)
}
