// A leader whose event loop is blocked when it is told to, between two transactions or inside one.
import pg from 'pg'
import { Fencepost } from '../../dist/index.js'
import { listen, say } from '../support/worker.mjs'

const { connectionString, schema, ttl, watchdog } = JSON.parse(process.argv[2])
const pool = new pg.Pool({ connectionString })
pool.on('error', () => {})
const election = new Fencepost({ pool, schema, watchdog }).election('e', { ttl })

function block(ms) {
  say('blocking')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

const outcomeOf = work =>
  work.then(
    () => 'done',
    error => error.code ?? error.message,
  )

let order = () => {}
const ordered = new Promise(resolve => {
  order = resolve
})
listen({ block: fields => order(fields) })

const term = await election.campaign()
const write = (client, what) =>
  client.query('insert into written (what, token) values ($1, $2)', [what, String(term.token)])
await term.transaction(client => write(client, 'before'))
say('elected', { token: term.token })
const { ms, inside } = await ordered
if (inside) {
  const outcome = await outcomeOf(
    term.transaction(async client => {
      await write(client, 'inside')
      block(ms)
      await write(client, 'after')
    }),
  )
  say('used', { outcome, isLeader: election.isLeader })
} else {
  block(ms)
  // All in the turn in which it goes on: no timer has fired.
  const tries = {
    transaction: outcomeOf(term.transaction(client => write(client, 'after'))),
    guard: outcomeOf(term.guard(pool)),
  }
  const [isLeader, { aborted }] = [election.isLeader, term.signal]
  const outcomes = { transaction: await tries.transaction, guard: await tries.guard }
  say('used', { outcomes, isLeader, aborted, resigned: await election.resign() })
}
