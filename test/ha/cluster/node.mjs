import { chownSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { Clock } from '../../faults/server/clock.mjs'
import { account, familyOf, isAlive, signalAll, until } from './programs.mjs'

const template = readFileSync(new URL('patroni.yml', import.meta.url), 'utf8')

/** A Patroni and its PostgreSQL, with a wall clock that can be moved. */
export class Node {
  /** @type {any} */
  program
  clock
  #programs
  #sites
  #config

  /** @param {{ name: string, folder: string, programs: any, sites: any, site: number, port: number, rest: number, etcd: string, password: string }} options */
  constructor({ programs, sites, ...options }) {
    const { name, folder, site, port, rest, password } = options
    this.name = name
    this.site = site
    this.host = sites?.address(site) ?? '127.0.0.1'
    this.#sites = sites
    this.port = port
    this.rest = rest
    this.password = password
    this.#programs = programs
    this.folder = join(folder, name)
    mkdirSync(this.folder, { mode: 0o755 })
    this.clock = new Clock(this.folder)
    this.#config = join(this.folder, 'patroni.yml')
    const values = {
      ...options,
      folder: this.folder,
      host: this.host,
      clients: sites ? '10.77.0.0/16' : '127.0.0.1/32',
    }
    writeFileSync(
      this.#config,
      template.replaceAll(/\$\{(\w+)\}/g, (_, key) => String(values[key])),
      { mode: 0o600 },
    )
    if (account.uid !== undefined && account.gid !== undefined)
      for (const path of [this.folder, this.#config]) chownSync(path, account.uid, account.gid)
  }

  start() {
    const args = [this.#config]
    this.program = this.#sites
      ? this.#programs.start(
          this.name,
          ...this.#sites.command(this.site, 'patroni', args),
          this.clock.env,
          {},
        )
      : this.#programs.start(this.name, 'patroni', args, this.clock.env)
  }

  /** The superuser's, straight to it. */
  get url() {
    return `postgresql://postgres:${this.password}@${this.host}:${this.port}/postgres`
  }

  get dataDir() {
    return join(this.folder, 'data')
  }

  get postmaster() {
    try {
      const pid = Number.parseInt(readFileSync(this.#pidFile, 'utf8'), 10)
      // One that has ended and that nobody reaps is in the process table still.
      return isAlive(pid) ? pid : undefined
    } catch {
      return undefined
    }
  }

  get #pidFile() {
    return join(this.dataDir, 'postmaster.pid')
  }

  /** One statement on a connection of its own. */
  async query(text, values, timeout = 20_000) {
    const client = new pg.Client({
      connectionString: this.url,
      connectionTimeoutMillis: 2_000,
      query_timeout: timeout,
    })
    client.on('error', () => {})
    try {
      await client.connect()
      return (await client.query(text, values)).rows
    } finally {
      await client.end().catch(() => {})
    }
  }

  /** Whether it takes writes, by its own word, within a moment. */
  async isPrimary() {
    const client = new pg.Client({
      connectionString: this.url,
      connectionTimeoutMillis: 300,
      query_timeout: 300,
    })
    client.on('error', () => {})
    try {
      await client.connect()
      return !(await client.query('select pg_is_in_recovery() as standby')).rows[0].standby
    } catch {
      return false
    } finally {
      client.connection.stream.destroy()
    }
  }

  /** Of Patroni's own interface. @param {string} path @param {RequestInit} [options] */
  async ask(path, options = {}) {
    return await fetch(`http://${this.host}:${this.rest}${path}`, {
      signal: AbortSignal.timeout(60_000),
      ...options,
    })
  }

  get #family() {
    const { postmaster } = this
    return [...familyOf(this.program.pid), ...(postmaster === undefined ? [] : familyOf(postmaster))]
  }

  /** As when its machine loses power: Patroni, the postmaster, and all that they have started. */
  async kill() {
    // Stopped first: what is stopped starts nothing that would be missed.
    signalAll(this.#family, 'SIGSTOP')
    signalAll(this.#family, 'SIGKILL')
    await this.program.ended
    await until(async () => this.postmaster === undefined, `${this.name} is gone`, 10_000)
    // Its successor would take a number in it that is in the process table for a server that runs.
    rmSync(this.#pidFile, { force: true })
  }

  stop() {
    signalAll(this.#family, 'SIGSTOP')
    signalAll(this.#family, 'SIGSTOP')
  }

  cont() {
    signalAll(this.#family, 'SIGCONT')
  }

  /** In good order: Patroni stops its PostgreSQL. */
  async end() {
    if (!this.program) return
    this.cont()
    await this.program.end()
    const { postmaster } = this
    if (postmaster === undefined) return
    process.kill(postmaster, 'SIGQUIT')
    await until(async () => this.postmaster === undefined, `${this.name} is gone`, 10_000)
  }
}
