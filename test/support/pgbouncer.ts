import { spawn } from 'node:child_process'
import { chownSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serverAccount } from '../../src/testing/account.ts'
import { leash } from '../../src/testing/leash.ts'
import { freePort } from '../../src/testing/port.ts'
import { connects } from './admin.ts'
import { until } from './until.ts'

export interface PgBouncer {
  /** The server's URL with the pooler in its place. */
  readonly url: string
  end(): Promise<void>
}

/** Starts PgBouncer in transaction mode before the server at `target`, with its defaults otherwise. */
export async function startPgBouncer(target: string): Promise<PgBouncer> {
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-pgbouncer-'))
  const pidFile = join(folder, 'pgbouncer.pid')
  const logFile = join(folder, 'pgbouncer.log')
  const config = join(folder, 'pgbouncer.ini')
  const url = new URL(target)
  url.hostname = '127.0.0.1'
  url.port = String(await freePort())
  writeFileSync(config, configuration(new URL(target), url.port, pidFile, logFile))

  const account = serverAccount()
  if (account.uid !== undefined && account.gid !== undefined) {
    for (const path of [folder, config]) chownSync(path, account.uid, account.gid)
  }
  const hold = leash(pidFile, 'INT', folder)
  const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` }
  const bouncer = spawn('pgbouncer', ['--quiet', config], { ...account, cwd: folder, env, stdio: 'ignore' })
  const ended = new Promise<void>((resolve, reject) => {
    bouncer.once('exit', () => resolve())
    bouncer.once('error', cause => reject(new Error('this twist needs the program pgbouncer', { cause })))
  })
  ended.catch(() => {})
  bouncer.unref()

  const end = async () => {
    bouncer.kill('SIGINT')
    await ended
    rmSync(folder, { recursive: true, force: true })
    hold.release()
  }
  try {
    await Promise.race([until(() => connects(url.href), { what: 'pgbouncer takes connections' }), ended])
    if (bouncer.exitCode !== null)
      throw new Error(`pgbouncer ended at once: ${readFileSync(logFile, 'utf8')}`)
    return { url: url.href, end }
  } catch (error) {
    await end()
    throw error
  }
}

// The user is forced, so any client gets in; the folder keeps the password from other accounts.
function configuration(server: URL, port: string, pidFile: string, logFile: string): string {
  const login = `user=${server.username} password=${decodeURIComponent(server.password)}`
  return `[databases]
* = host=${server.hostname} port=${server.port || 5432} ${login}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 1000
pidfile = ${pidFile}
logfile = ${logFile}
`
}
