import { execFileSync } from 'node:child_process'
import { chownSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { migrate } from '../../../dist/index.js'
import { startPostgres } from '../../../dist/testing/server.js'
import { Front } from '../../faults/server/front.mjs'
import { until } from './programs.mjs'

const settings = {
  max_connections: '100',
  shared_buffers: '64MB',
  wal_keep_size: '128MB',
  wal_retrieve_retry_interval: '200ms',
}

/** A primary and two standbys of it that know nothing of each other, as where nobody asks who is the newest. */
export class Siblings {
  front = new Front()
  /** @type {any[]} */
  servers = []
  current
  #folder = mkdtempSync(join(tmpdir(), 'fencepost-ha-siblings-'))

  async start() {
    execFileSync('chmod', ['755', this.#folder])
    const first = await this.#start('first', {})
    this.current = first
    await this.front.start(first.port)
    await migrate({ connection: first.url })
    await this.query(readFileSync(new URL('../../faults/server/journal.sql', import.meta.url), 'utf8'))
    await first.stop('fast')
    const { uid, gid } = statSync(first.dataDir)
    const names = ['second', 'third']
    for (const name of names) {
      const copy = join(this.#folder, name)
      execFileSync('cp', ['-a', first.dataDir, copy])
      writeFileSync(join(copy, 'standby.signal'), '')
      chownSync(join(copy, 'standby.signal'), uid, gid)
    }
    await first.start()
    const { password } = new URL(first.url)
    const primary_conninfo = `host=127.0.0.1 port=${first.port} user=postgres password=${password}`
    for (const name of names) await this.#start(name, { primary_conninfo })
    await until(
      async () =>
        (await this.query("select from pg_stat_replication where state = 'streaming'")).length === 2,
      'both follow',
    )
  }

  async #start(name, more) {
    const server = await startPostgres({
      dataDir: join(this.#folder, name),
      settings: { ...settings, ...more },
    })
    this.servers.push(server)
    return server
  }

  get url() {
    const url = new URL(this.servers[0].url)
    url.port = String(this.front.port)
    return url.href
  }

  get pooledUrl() {
    return this.url
  }

  async configure() {}
  async whole() {}

  async query(text, values) {
    return await ask(this.current.url, text, values)
  }

  /** It gets nothing from its primary any more. */
  async isolate(server) {
    await ask(server.url, "alter system set primary_conninfo = ''")
    await ask(server.url, 'select pg_reload_conf()')
    await until(
      async () => (await ask(server.url, 'select from pg_stat_wal_receiver')).length === 0,
      'it is alone',
    )
  }

  /** The one before is gone, as by a crash. */
  async promote(server) {
    await this.current.stop('immediate')
    await ask(server.url, 'select pg_promote(true, 30)')
    this.current = server
    this.front.turn(server.port)
  }

  /** Of the servers that were left behind: entries of their journals that the last one has not. */
  async lost() {
    const text = 'select * from audit.journal order by seq'
    const kept = new Set((await this.query(text)).map(row => JSON.stringify(row)))
    const all = new Map()
    for (const server of this.servers.filter(one => one !== this.current)) {
      await server.start()
      for (const row of await ask(server.url, text)) all.set(JSON.stringify(row), row)
      await server.stop('immediate')
    }
    return [...all].filter(([line]) => !kept.has(line)).map(([, row]) => row)
  }

  complaints() {
    return this.servers
      .flatMap(({ logFile }) => readFileSync(logFile, 'utf8').split('\n'))
      .filter(line => /deadlock detected|PANIC:|TRAP:|tuple concurrently updated/.test(line))
  }

  async end() {
    await this.front.close()
    for (const server of this.servers) await server.end()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

async function ask(url, text, values) {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 5_000,
    query_timeout: 40_000,
  })
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.query(text, values)).rows
  } finally {
    await client.end().catch(() => {})
  }
}
