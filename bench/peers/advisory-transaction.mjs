import { packageVersion } from './support/peer.mjs'
import { ADVISORY_LEFT, closePool, openPool } from './support/postgres.mjs'

/** The best of 8, 12, 16, 24, 32 and 48 connections on two cores; between 12 and 32 the differences are noise. */
const POOL = 12

/** @type {any} */
let pool

/** @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'pg_advisory_xact_lock',
  version: `pg ${packageVersion('pg')}`,
  settings: `a transaction for each lock held, begin and lock in one round trip, ${POOL} connections`,
  needs: 'postgres',
  async start({ url }) {
    pool = await openPool(url, POOL)
  },
  async cycle(key) {
    const client = await pool.connect()
    try {
      // Two statements in one message take no parameters.
      const literal = client.escapeLiteral(key)
      const begun = await client.query(`begin; select pg_advisory_xact_lock(hashtextextended(${literal}, 0))`)
      if (begun[1].rowCount !== 1) throw new Error(`not granted: ${key}`)
      const ended = await client.query('commit')
      if (ended.command !== 'COMMIT') throw new Error(`not released: ${key}`)
    } finally {
      client.release()
    }
  },
  stop: () => closePool(pool, ADVISORY_LEFT),
}
