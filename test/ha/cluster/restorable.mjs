import { execFile, execFileSync } from 'node:child_process'
import { chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { migrate } from '../../../dist/index.js'
import { startPostgres } from '../../../dist/testing/server.js'
import { account, until } from './programs.mjs'

const run = promisify(execFile)
/** pg_dump and its like are of this version, and do not come with the test's own server. */
const binDir = '/usr/lib/postgresql/15/bin'

/** A server whose data are dumped, archived and copied, and those that are made of them. */
export class Restorable {
  /** @type {any[]} */
  servers = []
  #folder = mkdtempSync(join(tmpdir(), 'fencepost-ha-restored-'))
  /** @type {any} */
  server

  async start() {
    execFileSync('chmod', ['755', this.#folder])
    mkdirSync(this.archive)
    this.#own(this.archive)
    const archive_command = `cp %p ${this.archive}/%f`
    this.server = await this.#start('first', { archive_mode: 'on', archive_command, wal_level: 'replica' })
    await this.ask('create database app')
    await migrate({ connection: this.urlOf(this.server) })
    await this.ask("select fencepost.configure(max_ttl => '3s')", 'app')
  }

  get archive() {
    return join(this.#folder, 'archive')
  }

  /** @param {any} server @param {string} [database] */
  urlOf(server, database = 'app') {
    const url = new URL(server.url)
    url.pathname = `/${database}`
    return url.href
  }

  async ask(text, database = 'postgres', server = this.server) {
    const client = new pg.Client({ connectionString: this.urlOf(server, database) })
    client.on('error', () => {})
    try {
      await client.connect()
      return (await client.query(text)).rows
    } finally {
      await client.end().catch(() => {})
    }
  }

  /** @returns {Promise<string>} the file */
  async dump() {
    const file = join(this.#folder, 'app.dump')
    await run(join(binDir, 'pg_dump'), ['--format=custom', `--file=${file}`, this.urlOf(this.server)])
    return file
  }

  async restore(file, server, database) {
    await this.ask(`create database ${database}`, 'postgres', server)
    await run(join(binDir, 'pg_restore'), [
      '--exit-on-error',
      `--dbname=${this.urlOf(server, database)}`,
      file,
    ])
  }

  /** Empty, of an identity of its own. */
  async another() {
    return await this.#start('another')
  }

  /** As a snapshot of a disk is put back: of the same identity, and no recovery is asked for. */
  async copied() {
    await this.server.stop('fast')
    execFileSync('cp', ['-a', this.server.dataDir, join(this.#folder, 'copied')])
    await this.server.start()
    return await this.#start('copied', { archive_mode: 'off' })
  }

  /** @returns {Promise<string>} the folder of a base backup */
  async backup() {
    const folder = join(this.#folder, 'recovered')
    await run(join(binDir, 'pg_basebackup'), [
      '--checkpoint=fast',
      '--wal-method=none',
      `--pgdata=${folder}`,
      `--dbname=${this.urlOf(this.server, 'postgres')}`,
    ])
    if (account.uid !== undefined) execFileSync('chown', ['-R', `${account.uid}:${account.gid}`, folder])
    return folder
  }

  /** As of a moment in the past. @param {string} target as the server prints it */
  async recovered(target) {
    await this.ask('select pg_switch_wal()')
    await this.ask('checkpoint')
    const signal = join(this.#folder, 'recovered', 'recovery.signal')
    writeFileSync(signal, '')
    this.#own(signal)
    const server = await this.#start('recovered', {
      archive_mode: 'off',
      restore_command: `cp ${this.archive}/%f %p`,
      recovery_target_time: target,
      recovery_target_action: 'promote',
    })
    await until(async () => {
      const [row] = await this.ask('select pg_is_in_recovery() as goes_on', 'postgres', server)
      return !row.goes_on
    }, 'it has recovered')
    return server
  }

  async #start(name, settings = {}) {
    const server = await startPostgres({
      binDir,
      dataDir: join(this.#folder, name),
      settings: { shared_buffers: '32MB', ...settings },
    })
    this.servers.push(server)
    return server
  }

  #own(path) {
    if (account.uid !== undefined && account.gid !== undefined) chownSync(path, account.uid, account.gid)
  }

  async end() {
    for (const server of this.servers) await server.end()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
