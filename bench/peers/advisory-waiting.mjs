import { packageVersion } from './support/peer.mjs'
import { ADVISORY_LEFT, closePool, openPool } from './support/postgres.mjs'

const ACQUIRE = 'select pg_advisory_lock(hashtextextended($1, 0))'
const RELEASE = 'select pg_advisory_unlock(hashtextextended($1, 0)) as done'

/** @type {any} */
let pool

/** @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'pg_advisory_lock',
  version: `pg ${packageVersion('pg')}`,
  settings: 'a connection for each that waits or holds, prepared statements',
  needs: 'postgres',
  async start({ url, waiters = 1 }) {
    pool = await openPool(url, waiters)
  },
  async cycle(key, granted) {
    const client = await pool.connect()
    try {
      await client.query({ name: 'acquire', text: ACQUIRE, values: [key] })
      granted?.()
      const released = await client.query({ name: 'release', text: RELEASE, values: [key] })
      if (released.rows[0].done !== true) throw new Error(`not released: ${key}`)
    } finally {
      client.release()
    }
  },
  stop: () => closePool(pool, ADVISORY_LEFT),
}
