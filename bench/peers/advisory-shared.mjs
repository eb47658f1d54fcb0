import { packageVersion } from './support/peer.mjs'
import { ADVISORY_LEFT, closePool, openPool } from './support/postgres.mjs'

const key = 'hashtextextended($1, 0)'
const ACQUIRE = { shared: `pg_advisory_lock_shared(${key})`, exclusive: `pg_advisory_lock(${key})` }
const RELEASE = { shared: `pg_advisory_unlock_shared(${key})`, exclusive: `pg_advisory_unlock(${key})` }

/** @type {any} */
let pool

/** @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'pg_advisory_lock, _shared',
  version: `pg ${packageVersion('pg')}`,
  settings: 'a connection for each that waits or holds, prepared statements',
  needs: 'postgres',
  async start({ url, waiters = 1 }) {
    pool = await openPool(url, waiters)
  },
  cycle: () => Promise.reject(new Error('sections only')),
  async under(key, { mode = 'exclusive' }, work) {
    const client = await pool.connect()
    try {
      await client.query({ name: `acquire ${mode}`, text: `select ${ACQUIRE[mode]}`, values: [key] })
      await work()
      const release = { name: `release ${mode}`, text: `select ${RELEASE[mode]} as done`, values: [key] }
      if ((await client.query(release)).rows[0].done !== true) throw new Error(`not released: ${key}`)
    } finally {
      client.release()
    }
  },
  stop: () => closePool(pool, ADVISORY_LEFT),
}
