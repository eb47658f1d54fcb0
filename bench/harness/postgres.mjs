import pg from 'pg'
import { defer } from './cleanup.mjs'
import { Refusal } from './refusal.mjs'

/**
 * @typedef {object} Durability
 * @property {string} fsync
 * @property {string} synchronous_commit
 * @property {string} full_page_writes
 */

/**
 * @typedef {import('./servers.mjs').Server & {
 *   durability: Durability,
 *   pid: number | undefined,
 *   freshDatabase: () => Promise<string>,
 * }} PostgresServer
 */

const SHOW = `select current_setting('server_version') as version, current_setting('fsync') as fsync,
  current_setting('synchronous_commit') as synchronous_commit,
  current_setting('full_page_writes') as full_page_writes`

/**
 * PostgreSQL 18 as initdb leaves it: stock settings, fsync and synchronous commit on.
 * @param {Record<string, string>} settings lines of postgresql.conf, for experiments
 * @returns {Promise<PostgresServer>} `pid` is the postmaster's; `freshDatabase` answers the URL of a new, empty database; none is dropped while
 *   the bench runs, because dropping one forces a checkpoint
 */
export async function startPostgres(settings = {}) {
  const starter = await import('../../dist/testing/server.js').catch(() => {
    throw new Refusal('Fencepost is not built: run `npm run build` in its folder')
  })
  const server = await starter.startPostgres({ settings })
  defer(() => server.end())

  const [row] = await query(server.url, SHOW)
  const { version, ...durability } = row
  const changed = Object.entries(settings).map(([name, value]) => `${name} ${value}`)
  let databases = 0
  return {
    url: server.url,
    version,
    durability,
    pid: server.pid,
    settings: [
      `fsync ${durability.fsync}`,
      `synchronous_commit ${durability.synchronous_commit}`,
      ...(changed.length > 0 ? changed : ['otherwise stock']),
    ].join(', '),
    async freshDatabase() {
      const url = new URL(server.url)
      url.pathname = `/bench_${++databases}`
      await query(server.url, `create database bench_${databases}`)
      // What the creation has dirtied is written now, not under the measurement.
      await query(server.url, 'checkpoint')
      return url.href
    },
  }
}

/**
 * @param {string} url
 * @param {string} statement
 */
async function query(url, statement) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(statement)).rows
  } finally {
    await client.end()
  }
}
