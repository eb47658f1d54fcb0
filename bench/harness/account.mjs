import { readdirSync, readFileSync } from 'node:fs'
import pg from 'pg'

/**
 * What a PostgreSQL server has spent since it was started.
 * @typedef {object} Spent
 * @property {number} cpu milliseconds, of all its processes
 * @property {number} wal bytes
 * @property {number} xids
 * @property {number} fsyncs of the log
 * @property {number} statements that clients of the database sent; NaN without pg_stat_statements
 */

/** A server that counts statements. */
export const COUNTING = { shared_preload_libraries: 'pg_stat_statements' }

const READ = `select pg_current_wal_insert_lsn() - '0/0' as wal,
  pg_snapshot_xmax(pg_current_snapshot())::text as xids,
  (select sum(fsyncs) from pg_stat_io where object = 'wal') as fsyncs`

/**
 * Reads the account of a server and one of its databases, from a connection to another one: the reader's statements do
 * not count. A backend tells of its fsyncs at most once a second, of the last ones ten seconds later or when it ends.
 * @param {import('./postgres.mjs').PostgresServer} postgres
 * @param {string} url of the database
 */
export async function openAccount(postgres, url) {
  const client = new pg.Client({ connectionString: postgres.url })
  await client.connect()
  const { rows } = await client.query('show shared_preload_libraries')
  const counts = rows[0].shared_preload_libraries.includes('pg_stat_statements')
  if (counts) await client.query('create extension if not exists pg_stat_statements')
  const database = new URL(url).pathname.slice(1)

  return {
    /** @returns {Promise<Spent>} */
    async read() {
      const [row] = (await client.query(READ)).rows
      return {
        cpu: serverCpu(Number(postgres.pid)),
        wal: Number(row.wal),
        xids: Number(row.xids),
        fsyncs: Number(row.fsyncs),
        statements: counts ? await this.calls('%') : Number.NaN,
      }
    },
    /** How many statements like this the database was sent. @param {string} pattern */
    async calls(pattern) {
      const { rows } = await client.query(
        `select coalesce(sum(s.calls), 0) as calls from pg_stat_statements s
          join pg_database d on d.oid = s.dbid
          where d.datname = $1 and s.toplevel and s.query ilike $2`,
        [database, pattern],
      )
      return Number(rows[0].calls)
    },
    /** @param {'on' | 'off'} value */
    async autovacuum(value) {
      await client.query(`alter system set autovacuum = ${value}`)
      await client.query('select pg_reload_conf()')
    },
    end: () => client.end(),
  }
}

/**
 * What was spent between two readings, for each of so many.
 * @param {Spent} before
 * @param {Spent} after
 * @param {number} count
 * @returns {Spent}
 */
export function spent(before, after, count) {
  return {
    cpu: (after.cpu - before.cpu) / count,
    wal: (after.wal - before.wal) / count,
    xids: (after.xids - before.xids) / count,
    fsyncs: (after.fsyncs - before.fsyncs) / count,
    statements: (after.statements - before.statements) / count,
  }
}

/**
 * CPU that the postmaster and its processes have used, in milliseconds. Those that have ended are in the postmaster's
 * account, to a hundredth of a second.
 * @param {number} postmaster
 */
export function serverCpu(postmaster) {
  let total = 0
  for (const pid of readdirSync('/proc').map(Number)) {
    if (Number.isNaN(pid)) continue
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      // After the name, which may have spaces in it: state, parent, …
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      if (pid !== postmaster && Number(fields[1]) !== postmaster) continue
      total += Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6
      if (pid === postmaster) total += (Number(fields[13]) + Number(fields[14])) * 10
    } catch {
      // It has ended meanwhile.
    }
  }
  return total
}
