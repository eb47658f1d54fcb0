import { packageVersion, token } from './support/peer.mjs'
import { closePool, openPool } from './support/postgres.mjs'

/** The best of 8, 12, 16, 24, 32 and 48 connections on two cores; between 12 and 32 the differences are noise. */
const POOL = 24

const ACQUIRE = `insert into leases (key, token, expires_at) values ($1, $2, clock_timestamp() + interval '30 seconds')
  on conflict (key) do nothing`
const RELEASE = 'delete from leases where key = $1 and token = $2'

/** @type {any} */
let pool

/** The table that most projects write themselves: a statement for each lock. @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'lease row',
  version: `pg ${packageVersion('pg')}`,
  settings: `unbatched, prepared statements, ${POOL} connections`,
  needs: 'postgres',
  async start({ url }) {
    pool = await openPool(url, POOL)
    await pool.query(
      'create table leases (key text primary key, token text not null, expires_at timestamptz not null)',
    )
  },
  async cycle(key) {
    const values = [key, token()]
    const granted = await pool.query({ name: 'acquire', text: ACQUIRE, values })
    if (granted.rowCount !== 1) throw new Error(`not granted: ${key}`)
    const released = await pool.query({ name: 'release', text: RELEASE, values })
    if (released.rowCount !== 1) throw new Error(`not released: ${key}`)
  },
  stop: () => closePool(pool, 'select count(*) from leases'),
}
