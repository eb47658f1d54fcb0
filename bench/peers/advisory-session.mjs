import { packageVersion } from './support/peer.mjs'
import { ADVISORY_LEFT, closePool, openPool } from './support/postgres.mjs'

/** The best of 8, 12, 16, 24, 32 and 48 connections on two cores; between 12 and 32 the differences are noise. */
const POOL = 12

const ACQUIRE = 'select pg_try_advisory_lock(hashtextextended($1, 0)) as done'
const RELEASE = 'select pg_advisory_unlock(hashtextextended($1, 0)) as done'

/** @type {any} */
let pool

/** @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'pg_try_advisory_lock',
  version: `pg ${packageVersion('pg')}`,
  settings: `a connection for each lock held, prepared statements, ${POOL} connections`,
  needs: 'postgres',
  async start({ url }) {
    pool = await openPool(url, POOL)
  },
  async cycle(key) {
    const client = await pool.connect()
    try {
      const granted = await client.query({ name: 'acquire', text: ACQUIRE, values: [key] })
      if (granted.rows[0].done !== true) throw new Error(`not granted: ${key}`)
      const released = await client.query({ name: 'release', text: RELEASE, values: [key] })
      if (released.rows[0].done !== true) throw new Error(`not released: ${key}`)
    } finally {
      client.release()
    }
  },
  stop: () => closePool(pool, ADVISORY_LEFT),
}
