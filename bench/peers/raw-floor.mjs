import pg from 'pg'
import { packageVersion } from './support/peer.mjs'

/** @type {any} */
let durable
/** @type {any} */
let asynchronous

/**
 * The least that a durable lock on PostgreSQL can cost one caller: a durable commit of one row, and an asynchronous one
 * that takes it away. No lock: it excludes nobody and carries nothing.
 * @type {import('../harness/peer.mjs').Peer}
 */
export const peer = {
  name: 'raw floor',
  version: `pg ${packageVersion('pg')}`,
  settings:
    'insert of one row with synchronous_commit on, delete on a second connection with it off, prepared',
  needs: 'postgres',
  async start({ url }) {
    durable = new pg.Client({ connectionString: url })
    asynchronous = new pg.Client({ connectionString: url, options: '-c synchronous_commit=off' })
    await Promise.all([durable.connect(), asynchronous.connect()])
    await durable.query('create table rows (key text primary key)')
  },
  async cycle(key) {
    const values = [key]
    const added = await durable.query({ name: 'add', text: 'insert into rows (key) values ($1)', values })
    const removed = await asynchronous.query({
      name: 'remove',
      text: 'delete from rows where key = $1',
      values,
    })
    if (added.rowCount !== 1 || removed.rowCount !== 1) throw new Error(`not written: ${key}`)
  },
  async stop() {
    await Promise.all([durable.end(), asynchronous.end()])
  },
}
