import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The user that the server runs as; empty where that is the user who runs this process. */
export interface Account {
  readonly uid?: number
  readonly gid?: number
}

/** PostgreSQL refuses to run as root, so root lends it an account that is there already; none is created. */
export function serverAccount(): Account {
  if (process.getuid?.() !== 0) return {}
  for (const user of ['postgres', 'nobody']) {
    try {
      return { uid: idOf('-u', user), gid: idOf('-g', user) }
    } catch {
      // no such user: try the next
    }
  }
  throw new Error(
    'PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody to run it as.',
  )
}

function idOf(flag: string, user: string): number {
  return Number(execFileSync('id', [flag, user], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))
}

/**
 * A folder with the same programs that `account` can run. A checkout under /root is closed to every other
 * account; the programs and their libraries are then copied into `folder`.
 */
export function reachableBinDir(binDir: string, account: Account, folder: string): string {
  const initdb = join(binDir, 'initdb')
  const runs = () => spawnSync(initdb, ['--version'], { ...account, cwd: folder }).error === undefined
  if (account.uid === undefined || !existsSync(initdb) || runs()) return binDir
  const copy = join(folder, 'postgresql')
  cpSync(dirname(binDir), copy, { recursive: true, verbatimSymlinks: true })
  return join(copy, 'bin')
}
