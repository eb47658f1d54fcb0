import { mkdirSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * A folder of its own for one run, in the one that was asked for, which is made if it is not there.
 *
 * @param {string | undefined} parent
 * @param {string} name
 */
export function runFolder(parent, name) {
  const where = parent ?? tmpdir()
  mkdirSync(where, { recursive: true })
  return mkdtempSync(join(where, `fencepost-faults-${name}-`))
}
