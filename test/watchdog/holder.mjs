// For the tests of the watchdog: a process with clients by name, that holds and blocks as it is told.
import pg from 'pg'
import { Fencepost } from '../../dist/index.js'
import { listen, say } from '../support/worker.mjs'

const { connectionString, schema } = JSON.parse(process.argv[2])
const statements = []

/** What our own connections send is seen as well: they are made of the pool's class of client. */
class Client extends pg.Client {
  query(config, ...rest) {
    statements.push(typeof config === 'string' ? config : `${config.text} ${config.values}`)
    return super.query(config, ...rest)
  }
}

const pool = new pg.Pool({ connectionString, Client })
pool.on('error', () => {})
const clients = {}
const locks = {}

function block(ms) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** Every way to send something through a handle, in this turn of the loop. */
async function use(lock) {
  const ways = {
    transaction: () => lock.transaction(client => client.query('select 1')),
    guard: () => lock.guard(pool),
    renew: () => lock.renew(),
    downgrade: () => lock.downgrade(),
  }
  const outcomes = {}
  for (const [name, way] of Object.entries(ways)) {
    outcomes[name] = await way().then(
      () => 'done',
      ({ code }) => code,
    )
  }
  return outcomes
}

listen({
  client: ({ client, options }) => {
    clients[client] = new Fencepost({ pool, schema, ...options })
    say('made')
  },
  /** @param lingers milliseconds that the listener of the loss takes */
  hold: async ({ key, client = 'one', options, lingers = 0 }) => {
    const lock = await clients[client].acquire(key, options)
    locks[key] = lock
    lock.signal.addEventListener('abort', () => {
      say('lost', { key, reason: lock.lossReason })
      block(lingers)
    })
    say('held', { key, token: lock.token })
  },
  release: async ({ key }) => say('released', { outcome: await locks[key].release() }),
  block: ({ ms }) => {
    say('blocking')
    block(ms)
    say('unblocked', {
      states: Object.fromEntries(Object.entries(locks).map(([key, { state }]) => [key, state])),
    })
  },
  'block and use': async ({ ms, key }) => {
    say('blocking')
    block(ms)
    const before = statements.length
    const outcomes = await use(locks[key])
    say('used', { outcomes, sent: statements.slice(before) })
  },
  close: async ({ client = 'one' }) => {
    await clients[client].close()
    say('closed')
  },
})
say('ready')
