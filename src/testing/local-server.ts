import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Account, reachableBinDir, serverAccount } from './account.ts'
import { embeddedBinDir } from './binaries.ts'
import { type Leash, leash } from './leash.ts'
import type { PostgresOptions, PostgresServer, StopMode } from './server.ts'

const run = promisify(execFile)

/** A data folder of our own, and pg_ctl to start and stop the server on it. See {@link PostgresServer}. */
export class LocalServer implements PostgresServer {
  port = 0
  readonly dataDir: string
  readonly binDir: string
  readonly logFile: string
  readonly #account: Account
  readonly #folder: string
  readonly #leash: Leash
  readonly #options: PostgresOptions
  #password = ''

  constructor(options: PostgresOptions) {
    const binDir = options.binDir ?? embeddedBinDir()
    this.#options = options
    this.#account = serverAccount()
    this.#folder = this.#own(mkdtempSync(join(tmpdir(), 'fencepost-postgres-')))
    this.dataDir = options.dataDir ?? join(this.#folder, 'data')
    this.#leash = leash(join(this.dataDir, 'postmaster.pid'), 'QUIT', this.#folder)
    this.logFile = join(this.#folder, 'server.log')
    this.binDir = reachableBinDir(binDir, this.#account, this.#folder)
  }

  get url(): string {
    return `postgresql://postgres:${this.#password}@127.0.0.1:${this.port}/postgres`
  }

  get pid(): number | undefined {
    try {
      const pid = Number.parseInt(readFileSync(join(this.dataDir, 'postmaster.pid'), 'utf8'), 10)
      process.kill(pid, 0)
      return pid
    } catch {
      return undefined
    }
  }

  async initialize(): Promise<void> {
    const passwordFile = join(this.dataDir, 'fencepost.password')
    if (!existsSync(passwordFile)) {
      const draft = join(this.#folder, 'password')
      writeFileSync(draft, randomBytes(18).toString('base64url'), { mode: 0o600 })
      if (!existsSync(this.dataDir)) mkdirSync(this.dataDir, { recursive: true, mode: 0o700 })
      this.#own(this.dataDir)
      this.#own(draft)
      const access = ['--username=postgres', `--pwfile=${draft}`, '--auth=scram-sha-256']
      const flags = [...access, '--encoding=UTF8', '--no-locale', '--no-sync']
      await this.#run('initdb', ['--pgdata', this.dataDir, ...flags])
      writeFileSync(join(this.dataDir, 'postgresql.conf'), "\ninclude 'fencepost.conf'\n", { flag: 'a' })
      // Beside the data, so that a folder that is started again, or copied, is still open to us.
      copyFileSync(draft, passwordFile)
      this.#own(passwordFile)
      rmSync(draft)
    }
    this.#password = readFileSync(passwordFile, 'utf8')
  }

  async start(): Promise<void> {
    const settings = {
      ...this.#options.settings,
      listen_addresses: '127.0.0.1',
      port: String(this.port),
      unix_socket_directories: '',
    }
    const lines = Object.entries(settings).map(([name, value]) => `${name} = ${quoted(value)}\n`)
    const file = join(this.dataDir, 'fencepost.conf')
    writeFileSync(file, lines.join(''))
    this.#own(file)
    await this.#pgCtl('start', '--log', this.logFile)
  }

  async stop(mode: StopMode = 'fast'): Promise<void> {
    if (this.pid === undefined) return
    await this.#pgCtl('stop', '--mode', mode)
  }

  async restart(mode: StopMode = 'fast'): Promise<void> {
    await this.stop(mode)
    await this.start()
  }

  async end(): Promise<void> {
    // One that stands still, by SIGSTOP, could not end.
    if (this.pid !== undefined) process.kill(this.pid, 'SIGCONT')
    await this.stop(this.#options.dataDir === undefined ? 'immediate' : 'fast')
    rmSync(this.#folder, { recursive: true, force: true })
    this.#leash.release()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.end()
  }

  #pgCtl(verb: string, ...flags: string[]): Promise<void> {
    return this.#run('pg_ctl', [
      verb,
      '--wait',
      '--silent',
      '--timeout=60',
      '--pgdata',
      this.dataDir,
      ...flags,
    ])
  }

  async #run(program: string, args: string[]): Promise<void> {
    // PGPORT, PGDATA and their like in our environment are meant for clients of another server.
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('PG'))
    const env = { ...Object.fromEntries(inherited), LC_ALL: 'C', ...this.#options.env }
    try {
      await run(join(this.binDir, program), args, { ...this.#account, cwd: this.#folder, env })
    } catch (cause) {
      const log = existsSync(this.logFile) ? readFileSync(this.logFile, 'utf8') : ''
      const end = log.split('\n').slice(-20).join('\n')
      throw new Error(`${program} failed for ${this.dataDir}: ${(cause as Error).message}\n${end}`, { cause })
    }
  }

  #own(path: string): string {
    const { uid, gid } = this.#account
    if (uid !== undefined && gid !== undefined) chownSync(path, uid, gid)
    return path
  }
}

/** In postgresql.conf a quote is doubled, and a backslash starts an escape. */
function quoted(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`
}
