import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'

const require = createRequire(import.meta.url)

/** The installed version of a package, also of one whose `exports` hide its package.json. @param {string} name */
export function packageVersion(name) {
  for (const folder of require.resolve.paths(name) ?? []) {
    const file = join(folder, name, 'package.json')
    if (existsSync(file)) return String(JSON.parse(readFileSync(file, 'utf8')).version).replace(/^v/, '')
  }
  throw new Error(`${name} is not installed`)
}

const prefix = randomUUID()
let tokens = 0

/** A value that nobody else uses, as cheap as one can be had: a peer is not to pay for the bench's randomness. */
export const token = () => `${prefix}:${++tokens}`
