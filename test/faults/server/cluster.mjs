import { execFile, execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
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
import { Clock } from './clock.mjs'
import { Front } from './front.mjs'

const run = promisify(execFile)

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

async function configure(url, text) {
  await ask(await connected(url, 15_000), text)
  await ask(await connected(url, 15_000), 'select pg_reload_conf()')
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
  /** File systems of their own, which can be filled; only root may mount them. @type {string[]} */
  #disks = []
  #standbys = 0
  /** @type {Clock} */
  clock
  /** @type {any} */
  primary
  /** @type {any} */
  standby

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
    this.clock = new Clock(this.#folder)
    this.primary = await startPostgres({ ...this.#options(), dataDir: this.#dataDir('first') })
    await this.front.start(this.primary.port)
    await migrate({ connection: this.url })
    await this.query(await readFile(new URL('journal.sql', import.meta.url), 'utf8'))
    await this.query("select fencepost.configure(max_ttl => '3s')")
    if (pair) await this.#addStandby()
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

  /** A standby that has all there is, a new one where the last was promoted. */
  async standBy() {
    if (!this.standby) await this.#addStandby()
    await this.#streams()
  }

  /** Loses nothing: the primary is stopped in good order, which sends all that it has, and the standby takes over. */
  async promote() {
    const old = this.primary
    await old.stop('fast')
    await this.#takeOver()
    this.front.turn(this.primary.port)
    await old.end()
  }

  /**
   * The primary crashes, and what was committed there since `meanwhile` began is lost with it: the standby did not listen any more.
   *
   * @param {() => Promise<void>} meanwhile
   * @returns {Promise<any[]>} the entries of the journal that are lost
   */
  async promoteWithLosses(meanwhile) {
    const [old, next] = [this.primary, this.standby]
    await configure(next.url, "alter system set primary_conninfo = ''")
    await this.#isAlone(next)
    await meanwhile()
    await old.stop('immediate')
    await this.#takeOver()
    await configure(next.url, 'alter system reset primary_conninfo')
    const recent = '(select max(seq) - 5000 from audit.journal)'
    const [{ from, kept }] = await this.query(
      `select ${recent} as from, array_agg(seq) as kept from audit.journal where seq > ${recent}`,
    )
    this.front.turn(next.port)
    await old.start()
    const text = 'select * from audit.journal where seq > $1 and seq <> all ($2) order by seq'
    const lost = await ask(await connected(old.url, 15_000), text, [from, kept])
    await old.end()
    return lost
  }

  /** The standby is the primary. The front does not know yet. */
  async #takeOver() {
    await ask(await connected(this.standby.url, 15_000), 'select pg_promote(true, 30)')
    this.primary = this.standby
    this.standby = undefined
  }

  async #isAlone(standby) {
    for (let i = 0; i < 400; i++) {
      const text = 'select count(*)::int as n from pg_stat_wal_receiver'
      const [{ n }] = await ask(await connected(standby.url, 15_000), text)
      if (n === 0) return
      await sleep(20)
    }
    throw new Error('the standby still listens')
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
    return { settings, env: this.clock.env }
  }

  async #addStandby() {
    const { dataDir } = this.primary
    const { uid, gid } = statSync(dataDir)
    const copy = this.#dataDir(`standby-${++this.#standbys}`)
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
