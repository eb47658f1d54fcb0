import { execFile, execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { migrate } from '../../../dist/index.js'
import { startPostgres } from '../../../dist/testing/server.js'
import { now, sleep } from '../history.mjs'
import { Front } from './front.mjs'

const run = promisify(execFile)

const faketime = ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu', '/usr/lib64', '/usr/lib']
  .map(folder => `${folder}/faketime/libfaketimeMT.so.1`)
  .find(existsSync)

const isNotUpYet = ({ code }) => code === '57P03' || code === 'ECONNREFUSED' || code === 'ECONNRESET'

/** Nothing has been sent before it is connected, so that is tried again for so many milliseconds. */
async function connected(url, patience) {
  const until = now() + patience
  for (;;) {
    const client = new pg.Client({ connectionString: url, query_timeout: 40_000 })
    client.on('error', () => {})
    try {
      await client.connect()
      return client
    } catch (error) {
      await client.end().catch(() => {})
      if (!isNotUpYet(error) || now() > until) throw error
    }
    await sleep(50)
  }
}

async function ask(client, text, values) {
  try {
    return (await client.query(text, values)).rows
  } finally {
    await client.end().catch(() => {})
  }
}

/** One server with a clock that can be moved, or a pair; what the campaign connects to is `port`. */
export class Cluster {
  front = new Front()
  #folder = mkdtempSync(join(tmpdir(), 'fencepost-faults-'))
  #clockFile = join(this.#folder, 'clock')
  /** File systems of their own, which can be filled; only root may mount them. @type {string[]} */
  #disks = []
  /** @type {any} */
  primary
  /** @type {any} */
  standby

  get hasClock() {
    return faketime !== undefined
  }

  get port() {
    return this.front.port
  }

  /** The superuser's, straight to the primary. */
  get url() {
    return this.primary.url
  }

  /** @param {{ pair: boolean }} options */
  async start({ pair }) {
    chmodSync(this.#folder, 0o755)
    this.moveClock(0)
    this.primary = await startPostgres({ ...this.#options(), dataDir: this.#dataDir('first') })
    await this.front.start(this.primary.port)
    await migrate({ connection: this.url })
    await this.query(await readFile(new URL('journal.sql', import.meta.url), 'utf8'))
    await this.query("select fencepost.configure(max_ttl => '3s')")
    if (pair) await this.#addStandby()
  }

  /** @param {number} seconds by which the server's wall clock is ahead. Its monotonic clock stays right. */
  moveClock(seconds) {
    writeFileSync(this.#clockFile, `+${seconds}`)
    chmodSync(this.#clockFile, 0o644)
  }

  /** Leaves the primary no space to write. @returns {Promise<() => void>} gives it back */
  async fillDisk() {
    const disk = dirname(this.primary.dataDir)
    const ballast = join(disk, 'ballast')
    // It fails when the disk is full, as it should.
    if (this.#disks.includes(disk)) {
      await run('dd', ['if=/dev/zero', `of=${ballast}`, 'bs=64k'], { timeout: 20_000 }).catch(() => {})
    }
    return () => rmSync(ballast, { force: true })
  }

  /** How often the primary had no space to write. */
  shortages() {
    return readFileSync(this.primary.logFile, 'utf8').split('No space left on device').length - 1
  }

  /** One statement, or several, on a connection of its own to the primary: in its own time, should it just be starting. */
  async query(text, values) {
    return await ask(await connected(this.url, 15_000), text, values)
  }

  /** Whether it answers. */
  async answers() {
    try {
      await ask(await connected(this.url, 0), 'select 1')
      return true
    } catch {
      return false
    }
  }

  /** Loses nothing: the primary is stopped in good order, which sends all that it has, and the standby takes over. */
  async promote() {
    const [old, next] = [this.primary, this.standby]
    await this.#streams()
    await old.stop('fast')
    await ask(await connected(next.url, 15_000), 'select pg_promote(true, 30)')
    this.primary = next
    this.standby = undefined
    this.front.turn(next.port)
    await old.end()
  }

  /** Waits until the standby has all that was written up to now. */
  async #streams() {
    for (let i = 0; i < 400; i++) {
      const [row] = await this.query(
        "select count(*)::int as n from pg_stat_replication where state = 'streaming' and pg_wal_lsn_diff(sent_lsn, replay_lsn) < 65536",
      )
      if (row.n === 1) return
      await sleep(50)
    }
    throw new Error('the standby does not stream')
  }

  async end() {
    await this.front.close()
    for (const server of [this.standby, this.primary]) await server?.end()
    for (const disk of this.#disks) execFileSync('umount', ['--lazy', disk])
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #dataDir(name) {
    const disk = join(this.#folder, name)
    mkdirSync(disk, { mode: 0o755 })
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1g,mode=755', 'fencepost-faults', disk])
      this.#disks.push(disk)
    } catch {
      // It is the common one then, and nobody fills it.
    }
    return join(disk, 'data')
  }

  #options() {
    const settings = {
      max_connections: '200',
      shared_buffers: '64MB',
      wal_level: 'replica',
      max_wal_senders: '4',
      wal_keep_size: '128MB',
      max_wal_size: '256MB',
      wal_retrieve_retry_interval: '200ms',
      deadlock_timeout: '200ms',
      idle_in_transaction_session_timeout: '5s',
      log_lock_waits: 'on',
      log_min_duration_statement: '1s',
    }
    const env = {
      LD_PRELOAD: faketime ?? '',
      FAKETIME_TIMESTAMP_FILE: this.#clockFile,
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      // Else each backend would see the step at another time.
      FAKETIME_NO_CACHE: '1',
    }
    return faketime ? { settings, env } : { settings }
  }

  async #addStandby() {
    const { dataDir } = this.primary
    const { uid, gid } = statSync(dataDir)
    const copy = this.#dataDir('second')
    await this.primary.stop('fast')
    execFileSync('cp', ['-a', dataDir, copy])
    writeFileSync(join(copy, 'standby.signal'), '')
    chownSync(join(copy, 'standby.signal'), uid, gid)
    await this.primary.start()
    const { password } = new URL(this.url)
    const { settings, ...rest } = this.#options()
    const conninfo = `host=127.0.0.1 port=${this.primary.port} user=postgres password=${password}`
    this.standby = await startPostgres({
      ...rest,
      dataDir: copy,
      settings: { ...settings, primary_conninfo: conninfo },
    })
  }
}
