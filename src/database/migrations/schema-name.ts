import { createHash } from 'node:crypto'
import { BadOptionError } from '../../errors.ts'

export const defaultSchema = 'fencepost'

// The server cuts longer identifiers short and goes on, so the name would no longer be the one asked for.
const longestIdentifier = 63

/** Throws {@link BadOptionError} for what cannot be the name of a schema. */
export function checkSchema(schema: string): string {
  const bytes = typeof schema === 'string' ? Buffer.byteLength(schema) : 0
  if (bytes < 1 || bytes > longestIdentifier || schema.includes('\0') || schema.startsWith('pg_')) {
    throw new BadOptionError(
      `schema: want a name of 1 to ${longestIdentifier} bytes without NUL that does not begin with "pg_"`,
    )
  }
  return schema
}

/**
 * The advisory lock that everything that changes the schema takes first, as the text of a `bigint`. 64 bits of a hash:
 * a collision with somebody else's number costs waiting and nothing else.
 */
export function migrationLockKey(schema: string): string {
  return createHash('sha256').update(`fencepost migrations ${schema}`).digest().readBigInt64BE().toString()
}
