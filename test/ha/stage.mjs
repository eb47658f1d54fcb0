// One scenario's workers, their record, and what the checker says of it.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readHistory, recorder, sleep } from '../faults/history.mjs'
import { load } from '../faults/load.mjs'
import { leftovers, tables } from '../faults/server/record.mjs'
import { account as accountOf, tell } from '../faults/story.mjs'
import { until } from './cluster/programs.mjs'

const { check } = await load('checker/index.ts')
const { Child } = await load('../support/child.ts')
const script = new URL('worker.mjs', import.meta.url)
const counted = { guarded: 4, fenced: 3 }
const keys = Object.entries(counted).flatMap(([name, count]) =>
  Array.from({ length: count }, (_, i) => `${name}:${i + 1}`),
)

export class Stage {
  cluster
  folder
  log
  /** @type {{ name: string, child: any }[]} */
  workers = []
  /** Entries of a journal whose server was left behind. @type {any[]} */
  lost = []
  /** What is expected besides the rules of the checker. @type {{ rule: string, at: number, story: string }[]} */
  found = []
  #seed

  constructor(cluster, folder, seed) {
    this.cluster = cluster
    this.folder = folder
    this.#seed = seed
    mkdirSync(folder, { recursive: true })
    this.log = recorder(folder, 'scenario')
  }

  /**
   * Three clients: one by way of HAProxy, one by way of PgBouncer that listens directly, one that does not listen.
   *
   * @param {{ replication?: 'synchronous' | 'asynchronous', ttl?: string, maxTtl?: string, only?: string[] }} options `ttl`: of all but the long ones
   */
  async start({ replication = 'synchronous', ttl = '3s', maxTtl = '60s', only } = {}) {
    const { cluster } = this
    await cluster.configure({ synchronous_mode: replication === 'synchronous' })
    await cluster.whole()
    // What an asynchronous scenario before this one has left; by a clock that is behind it is not over.
    await cluster.query('update fencepost.cluster set quarantined_until = null')
    await cluster.query('truncate audit.journal, data.counters, data.ledger')
    await cluster.query('insert into data.counters select unnest($1::text[])', [keys])
    await cluster.query('select fencepost.configure(max_ttl => $1, replication => $2)', [maxTtl, replication])
    const ways = [
      { name: 'w1', behind: 'w2', url: cluster.url, wakes: true },
      { name: 'w2', behind: 'w3', url: cluster.pooledUrl, wakes: { connectionString: cluster.url } },
      { name: 'w3', behind: 'w1', url: cluster.pooledUrl, wakes: false },
    ]
    for (const way of ways) await this.hire({ ...way, ttl, only })
    // Everybody holds, stands in line, and has been answered.
    if (!only) {
      await until(async () => (await this.#count('locks')) === 3, 'all of them hold', 30_000)
      for (const { child } of this.workers) child.send('queue')
      await until(async () => (await this.#count('waiters')) === 3, 'all of them stand in line', 30_000)
    }
    await sleep(1_000)
  }

  async #count(table) {
    const [{ n }] = await this.cluster.query(
      `select count(*)::int as n from fencepost.${table} where key like 'long:%'`,
    )
    return n
  }

  /** Another client. @param {{ name: string, url: string, wakes: any, ttl: string, behind?: string, only?: string[] | undefined }} way */
  async hire({ name, ...way }) {
    const { folder } = this
    const args = [JSON.stringify({ name, folder, seed: this.#seed, ...way })]
    const child = new Child(script, { args })
    this.workers.push({ name, child })
    await child.message('ready', { within: 20_000 })
  }

  /**
   * A fault that is told to the checker. `life`: what follows is another incarnation.
   *
   * @template T @param {string} name @param {() => Promise<T>} strike @param {{ life?: boolean }} [options]
   */
  async fault(name, strike, { life = false } = {}) {
    const about = { fault: name, life }
    this.log('fault', 'invoke', name, about)
    const result = await strike()
    this.log('fault', 'ok', name, about)
    return result
  }

  /**
   * Everybody leaves, and the record is judged.
   *
   * @param {(run: any) => void} [expects] what a scenario wants besides, by `expect`
   * @param {() => Promise<unknown>} [gone] once everybody has left
   */
  async judge(expects = () => {}, gone = async () => {}) {
    this.log('calm', 'ok', 'calm')
    await sleep(2_000)
    for (const { child } of this.workers) child.send('finish')
    for (const { name, child } of this.workers) {
      await child.message('finished', { within: 90_000 }).catch(error => {
        this.log('farewell', 'fail', name, { message: error.message })
        this.expect(false, `${name} did not come to its end`)
      })
    }
    await this.end()
    await gone()
    const { cluster } = this
    // A session that was lost while nobody could be told of it outlives a grace.
    let left = await leftovers(cluster)
    for (let i = 0; i < 12 && left.sessions > 0; i++) left = await leftovers(cluster)
    left.connections = await this.#connectionsLeft()
    const journal = (await cluster.query('select * from audit.journal order by seq')).map(asEntry)
    const final = { ...(await tables(cluster)), leftovers: left }
    const run = { events: readHistory(this.folder), journal, lost: this.lost.map(asEntry), final }
    this.#save(run)
    expects(run)
    const violations = [...check(run), ...this.found]
    for (const story of cluster.complaints()) violations.push({ rule: 'server-log', at: 0, story })
    if (violations.length > 0) {
      const stories = violations.slice(0, 30).map(violation => accountOf(violation, run))
      writeFileSync(join(this.folder, 'story.txt'), stories.join('\n'))
    }
    return {
      events: run.events,
      violations: violations.map(violation => ({ ...violation, text: tell(violation) })),
    }
  }

  /** Of clients: Patroni has its own, and PgBouncer keeps some until it is restarted. */
  async #connectionsLeft() {
    const { cluster } = this
    if (cluster.bouncer) {
      await cluster.bouncer.end('SIGTERM')
      cluster.startBouncer()
    }
    const look = () =>
      cluster.query("select from pg_stat_activity where application_name ~ '^(fencepost|user of)'")
    await until(async () => (await look()).length === 0, 'all are gone', 5_000).catch(() => {})
    return (await look()).length
  }

  /** What a scenario wants besides. */
  expect(isSo, story) {
    if (!isSo) this.found.push({ rule: 'scenario', at: 0, story })
  }

  async end() {
    for (const { child } of this.workers.splice(0)) await child.kill()
  }

  get events() {
    return readHistory(this.folder)
  }

  #save({ journal, lost, final }) {
    const write = (name, lines) =>
      writeFileSync(join(this.folder, name), `${lines.map(line => JSON.stringify(line)).join('\n')}\n`)
    write('journal.jsonl', journal)
    write('lost.jsonl', lost)
    writeFileSync(join(this.folder, 'final.json'), JSON.stringify(final))
  }
}

const asEntry = row => ({ ...row, seq: Number(row.seq) })
