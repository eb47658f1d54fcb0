import { mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defer } from './cleanup.mjs'

const TMPFS = 0x01021994

/**
 * Moves this process's temporary folders to a disk if they are in memory: there an fsync costs nothing, and every
 * figure of a durable server would be a fiction.
 */
export async function useDisk() {
  const { type } = await statfs(tmpdir())
  if (type === TMPFS) process.env.TMPDIR = '/var/tmp'
}

/**
 * A new temporary folder, removed with the bench.
 * @param {string} name
 */
export async function temporaryFolder(name) {
  const folder = await mkdtemp(join(tmpdir(), `fencepost-bench-${name}-`))
  defer(() => rm(folder, { recursive: true, force: true }))
  return folder
}
