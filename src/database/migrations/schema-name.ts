import { createHash } from 'node:crypto'
import { BadOptionError } from '../../errors.ts'
import { isWellFormed } from '../../options.ts'

export const defaultSchema = 'fencepost'

// The server cuts longer identifiers short and goes on, so the name would no longer be the one asked for.
const longestIdentifier = 63

/** Whether the server keeps it as it is. */
function isIdentifier(name: unknown): name is string {
  if (typeof name !== 'string' || name === '' || name.includes('\0') || !isWellFormed(name)) return false
  return Buffer.byteLength(name) <= longestIdentifier
}

/** Throws {@link BadOptionError} for what cannot be the name of a schema. */
export function checkSchema(schema: string): string {
  // In a search_path it stands for the schema of whoever is logged in, whatever quotes are around it.
  if (isIdentifier(schema) && !schema.startsWith('pg_') && schema !== '$user') return schema
  throw new BadOptionError(
    `schema: want a name of 1 to ${longestIdentifier} bytes of Unicode without NUL that is not "$user" and does not begin with "pg_"`,
  )
}

/** Throws {@link BadOptionError} for what cannot be names of roles. */
export function checkRoles(option: string, roles: readonly string[]): readonly string[] {
  if (Array.isArray(roles) && roles.every(isIdentifier)) return roles
  throw new BadOptionError(
    `${option}: want a list of names of 1 to ${longestIdentifier} bytes of Unicode without NUL`,
  )
}

/**
 * The advisory lock that everything that changes the schema takes first, as the text of a `bigint`. 64 bits of a hash:
 * a collision with somebody else's number costs waiting and nothing else.
 */
export function migrationLockKey(schema: string): string {
  return createHash('sha256').update(`fencepost migrations ${schema}`).digest().readBigInt64BE().toString()
}
