/** One of the candidates. While it leads it writes its token, again and again; asked to end, it drains first. */
import { setTimeout as pause } from 'node:timers/promises'
import { Fencepost } from 'fencepost'
import pg from 'pg'
import { name, ttl } from './setting.mjs'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 2 })
pool.on('error', () => {})
const fp = new Fencepost({ pool, ttl })
process.once('SIGTERM', () => fp.close())

const election = fp.election(name, { value: { pid: process.pid }, onLost: 'exit' })
await election.lead(async term => {
  while (!term.signal.aborted) {
    await term.transaction(client =>
      client.query('insert into written (pid, token) values ($1, $2)', [process.pid, String(term.token)]),
    )
    await pause(50, undefined, { signal: term.signal })
  }
})
await pool.end()
