import { packageVersion } from './support/peer.mjs'
import { closePool, openPool } from './support/postgres.mjs'

const TABLE = `create table if not exists resources (key text primary key);
  insert into resources values ('bench:rw') on conflict do nothing`

/** @type {any} */
let pool

/** @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'for update, for share',
  version: `pg ${packageVersion('pg')}`,
  settings: 'a transaction and a connection for each that waits or holds, commit without a flush',
  needs: 'postgres',
  async start({ url, waiters = 1 }) {
    // It writes nothing that is worth a flush.
    pool = await openPool(`${url}?options=${encodeURIComponent('-c synchronous_commit=off')}`, waiters)
    await pool.query(TABLE)
  },
  cycle: () => Promise.reject(new Error('sections only')),
  async under(key, { mode }, work) {
    const client = await pool.connect()
    try {
      // One message.
      const [, { rowCount }] = await client.query(
        `begin; select from resources where key = '${key}' for ${mode === 'shared' ? 'share' : 'update'}`,
      )
      if (rowCount !== 1) throw new Error(`not granted: ${key}`)
      await work()
      await client.query('commit')
    } finally {
      client.release()
    }
  },
  stop: () => closePool(pool, 'select 0'),
}
