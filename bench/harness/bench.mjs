import { startPostgres } from './postgres.mjs'
import { startEtcd, startRedis } from './servers.mjs'

/**
 * @typedef {object} Options
 * @property {number} rounds
 * @property {number} window milliseconds that a judged cell is measured for
 * @property {number} grants how many a bench waits for that counts grants
 * @property {boolean} all a bench that measures some of its cells as a rule measures all of them
 * @property {'ttl' | 'fast'} takeover of elections: by what a leader that is gone is found out
 * @property {Record<string, string>} postgresSettings lines of postgresql.conf, for experiments
 */

/** What a bench runs with: its servers, its options, and where it tells how far it is. */
export class Bench {
  /** @type {import('./postgres.mjs').PostgresServer} */
  postgres
  rounds
  window
  grants
  all
  takeover
  /** @type {Partial<Record<'redis' | 'etcd', import('./servers.mjs').Server>>} */
  #servers = {}

  /**
   * @param {import('./postgres.mjs').PostgresServer} postgres
   * @param {Options} options
   */
  constructor(postgres, { rounds, window, grants, all, takeover }) {
    this.postgres = postgres
    this.rounds = rounds
    this.window = window
    this.grants = grants
    this.all = all
    this.takeover = takeover
  }

  /**
   * Starts the servers that a bench names; PostgreSQL always.
   * @param {readonly ('redis' | 'etcd')[]} servers
   * @param {Options} options
   */
  static async start(servers, options) {
    const bench = new Bench(await startPostgres(options.postgresSettings), options)
    if (servers.includes('redis')) bench.#servers.redis = await startRedis()
    if (servers.includes('etcd')) bench.#servers.etcd = await startEtcd()
    return bench
  }

  /** Each server with its version and settings. @returns {[string, import('./servers.mjs').Server][]} */
  get servers() {
    return [['PostgreSQL', this.postgres], ...Object.entries(this.#servers)]
  }

  /**
   * Where a peer connects to: for PostgreSQL to a database made for this call.
   * @param {import('./peer.mjs').Peer['needs']} needs
   */
  async url(needs) {
    if (needs === 'postgres') return this.postgres.freshDatabase()
    const server = this.#servers[needs]
    if (!server) throw new Error(`this bench starts no ${needs}`)
    return server.url
  }

  /**
   * Says on stderr what was just measured.
   * @param {number} round from 0
   * @param {string} what
   * @param {import('./cells.mjs').Figures} figures
   */
  progress(round, what, { ops, p50 }) {
    const median = p50 === undefined ? '' : `, median ${p50.toFixed(2)} ms`
    this.say(round, `${what}: ${Math.round(ops ?? Number.NaN).toLocaleString('en')}/s${median}`)
  }

  /**
   * @param {number} round from 0
   * @param {string} what
   */
  say(round, what) {
    console.error(`round ${round + 1}/${this.rounds}: ${what}`)
  }
}
