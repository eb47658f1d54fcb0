import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, chownSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrate } from '../../../dist/index.js'
import { now } from '../../faults/history.mjs'
import { Etcd } from './etcd.mjs'
import { Node } from './node.mjs'
import { account, freePorts, Programs, until } from './programs.mjs'

/** Of Debian 12. */
const packages = ['etcd-server', 'patroni', 'python3-etcd', 'haproxy', 'pgbouncer', 'postgresql-15']

/** @returns {string[]} those that are not here */
export function missing() {
  return packages.filter(name => {
    const { stdout } = spawnSync('dpkg', ['--status', name], { encoding: 'utf8' })
    return !stdout?.includes('ok installed')
  })
}

/** Three nodes of Patroni over three members of etcd, HAProxy to the primary, PgBouncer in transaction mode before that. */
export class HaCluster {
  folder = mkdtempSync(join(tmpdir(), 'fencepost-ha-'))
  programs
  etcd
  /** @type {Node[]} */
  nodes = []
  haproxy
  bouncer
  port = 0
  pooledPort = 0
  #members
  #password = randomBytes(18).toString('base64url')

  /** @param {{ members?: number, sites?: any }} [options] how many members of etcd; where each of them and of the nodes is */
  constructor({ members = 3, sites } = {}) {
    this.sites = sites
    this.#members = members
    chmodSync(this.folder, 0o755)
    if (account.uid !== undefined && account.gid !== undefined)
      chownSync(this.folder, account.uid, account.gid)
    this.programs = new Programs(this.folder)
    this.etcd = new Etcd(this.programs, this.folder, sites)
  }

  async start() {
    this.sites?.start()
    await this.etcd.start(this.#members)
    const [port = 0, pooledPort = 0, ...ports] = await freePorts(8)
    Object.assign(this, { port, pooledPort })
    for (let i = 0; i < 3; i++) {
      this.nodes.push(
        new Node({
          name: `node${i + 1}`,
          folder: this.folder,
          programs: this.programs,
          sites: this.sites,
          site: i + 1,
          port: ports[2 * i] ?? 0,
          rest: ports[2 * i + 1] ?? 0,
          etcd: this.etcd.hosts,
          password: this.#password,
        }),
      )
    }
    for (const node of this.nodes) node.start()
    this.startHaproxy()
    this.startBouncer()
    await this.whole(120_000)
    await migrate({ connection: (await this.primary()).url })
    await this.query(readFileSync(new URL('../../faults/server/journal.sql', import.meta.url), 'utf8'))
  }

  /** The superuser's, by way of HAProxy. */
  get url() {
    return `postgresql://postgres:${this.#password}@127.0.0.1:${this.port}/postgres`
  }

  /** And of PgBouncer before that. */
  get pooledUrl() {
    return `postgresql://postgres:${this.#password}@127.0.0.1:${this.pooledPort}/postgres`
  }

  startHaproxy() {
    const config = `
global
  maxconn 500
defaults
  mode tcp
  timeout connect 1s
  timeout client 1h
  timeout server 1h
  timeout check 1s
listen primary
  bind 127.0.0.1:${this.port}
  option httpchk GET /primary
  http-check expect status 200
  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
${this.nodes.map(({ name, host, port, rest }) => `  server ${name} ${host}:${port} check port ${rest}`).join('\n')}
`
    this.haproxy = this.#program('haproxy', '/usr/sbin/haproxy', 'haproxy.cfg', config, ['-db', '-f'])
  }

  startBouncer() {
    // Its default is to try a server again after 15 s.
    const config = `
[databases]
* = host=127.0.0.1 port=${this.port} user=postgres password=${this.#password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${this.pooledPort}
unix_socket_dir =
auth_type = any
pool_mode = transaction
server_login_retry = 1
max_client_conn = 500
`
    this.bouncer = this.#program('pgbouncer', '/usr/sbin/pgbouncer', 'pgbouncer.ini', config, [])
  }

  #program(name, command, file, config, args) {
    const path = join(this.folder, file)
    writeFileSync(path, config, { mode: 0o600 })
    if (account.uid !== undefined && account.gid !== undefined) chownSync(path, account.uid, account.gid)
    return this.programs.start(name, command, [...args, path])
  }

  /** Who leads, by its own word. */
  async primary() {
    return await until(async () => {
      for (const node of this.nodes) if (node.program.isRunning && (await node.isPrimary())) return node
      return undefined
    }, 'there is a primary')
  }

  /** Waits until another than that one leads. @returns {Promise<{ node: Node, at: number }>} since when, by the history's clock */
  async succeeded(old, within = 90_000) {
    const others = this.nodes.filter(node => node !== old)
    return await until(
      async () => {
        for (const node of others) if (await node.isPrimary()) return { node, at: now() }
        return undefined
      },
      `another than ${old.name} leads`,
      within,
    )
  }

  /** One statement, on the primary. */
  async query(text, values) {
    return await (await this.primary()).query(text, values)
  }

  /** Members as Patroni tells: `{ name, role, state, lag }`. */
  async members() {
    for (const node of this.nodes.filter(({ program }) => program?.isRunning)) {
      const answer = await node.ask('/cluster', { signal: AbortSignal.timeout(1_000) }).catch(() => undefined)
      if (answer?.ok) return (await answer.json()).members
    }
    return []
  }

  /** Waits until all nodes run, one leads, the others follow, and one of them is waited for, if that is asked for. */
  async whole(within = 90_000) {
    await until(
      async () => {
        const members = await this.members()
        const roles = members
          .filter(({ state }) => /^(running|streaming)$/.test(state))
          .map(({ role }) => role)
        const isSynchronous = await this.isSynchronous()
        return (
          roles.length === 3 &&
          roles.includes('leader') &&
          (!isSynchronous || roles.includes('sync_standby')) &&
          // Under load it is never 0, as Patroni has it.
          members.every(({ role, lag }) => role === 'leader' || lag < 1_000_000)
        )
      },
      'the cluster is whole',
      within,
    )
  }

  async isSynchronous() {
    for (const node of this.nodes.filter(({ program }) => program?.isRunning)) {
      const answer = await node.ask('/config', { signal: AbortSignal.timeout(1_000) }).catch(() => undefined)
      if (answer?.ok) return (await answer.json()).synchronous_mode === true
    }
    return true
  }

  async nodeOf(role) {
    return await until(async () => {
      const found = (await this.members()).find(one => one.role === role)
      return this.nodes.find(({ name }) => name === found?.name)
    }, `there is a ${role}`)
  }

  /** Changes what Patroni is told, for all nodes. */
  async configure(changes) {
    const node = await this.primary()
    await node.ask('/config', { method: 'PATCH', body: JSON.stringify(changes) })
  }

  async switchover(candidate) {
    const leader = await this.primary()
    const body = JSON.stringify({ leader: leader.name, candidate: candidate.name })
    const answer = await leader.ask('/switchover', { method: 'POST', body })
    if (!answer.ok) throw new Error(`switchover: ${answer.status} ${await answer.text()}`)
  }

  /** Deadlocks and broken assertions that the servers have logged. */
  complaints() {
    return this.nodes
      .flatMap(({ program }) => readFileSync(program.logFile, 'utf8').split('\n'))
      .filter(line => /deadlock detected|PANIC:|TRAP:|tuple concurrently updated/.test(line))
  }

  async end() {
    for (const program of [this.bouncer, this.haproxy]) await program?.end('SIGTERM')
    await Promise.all(this.nodes.map(node => node.end()))
    await this.programs.end()
    rmSync(this.folder, { recursive: true, force: true })
  }
}
