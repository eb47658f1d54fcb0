// One process of a scenario: a client of Fencepost with a pool of its own, and actors that use it.
import pg from 'pg'
import { now, recorder } from '../faults/history.mjs'
import { Random } from '../faults/random.mjs'
import { listen, say } from '../support/worker.mjs'
import { actors, grab, queue } from './actors.mjs'

const { name, behind, seed, folder, url, wakes, ttl, only } = JSON.parse(process.argv[2] ?? '{}')
const { Fencepost } = await import('../../dist/index.js')
const log = recorder(folder, name)

// How often Fencepost tries to connect, whether it succeeds or not.
const { connect } = pg.Client.prototype
pg.Client.prototype.connect = function (...values) {
  const { application_name: who, host, port } = this.connectionParameters
  if (/^fencepost /.test(who)) log('connect', 'invoke', who, { to: `${host}:${port}` })
  return connect.apply(this, values)
}

const pool = new pg.Pool({
  connectionString: url,
  max: 6,
  connectionTimeoutMillis: 3_000,
  query_timeout: 4_000,
  application_name: `user of ${name}`,
})
pool.on('error', () => {})
// A client that is checked out says it itself; its query fails all the same.
pool.on('connect', client => client.on('error', () => {}))
const fp = new Fencepost({ pool, ttl, owner: name, listen: wakes })

let unhandled = 0
for (const event of ['unhandledRejection', 'uncaughtException']) {
  process.on(event, error => {
    unhandled++
    log('unhandled', 'fail', `${name}-unhandled-${unhandled}`, { message: String(error?.stack ?? error) })
  })
}
process.on('warning', ({ code }) => log('warning', 'ok', name, { code }))

let number = 0
const contextOf = random => ({
  ...{ name, behind, url, fp, pool, log, random: new Random(random), running: true },
  id: () => `${name}-${++number}`,
})
const running = actors
  .filter(actor => only === undefined || only.includes(actor.name))
  .flatMap(actor =>
    Array.from({ length: actor.copies }, (_, copy) => {
      const context = contextOf(`${seed} ${name} ${actor.name} ${copy}`)
      return { stopped: actor.start(context), stop: () => (context.running = false) }
    }),
  )

/** How this client says it is, all the time. */
const asking = setInterval(async () => {
  const asked = now()
  const { reached, error, waking, trustLeft, connections } = await fp.health({ timeout: 1_000 })
  log('health', 'ok', name, { asked, reached, code: error?.code, waking, trustLeft, connections })
}, 250)

/** Timers and sockets that keep the process alive, once those that were just closed have had a second. */
async function left() {
  const busy = () => process.getActiveResourcesInfo().filter(kind => /^(Timeout|TCP)/.test(kind))
  const until = now() + 1_000
  // A timer would be one more.
  while (busy().length > 0 && now() < until) await new Promise(resolve => setImmediate(resolve))
  return busy()
}

listen({
  queue: () => {
    running.push({ stopped: queue(contextOf(`${seed} ${name} queue`)), stop: () => {} })
  },
  grab: ({ keys }) => {
    const context = contextOf(`${seed} ${name} grab`)
    running.push({ stopped: grab(context, keys), stop: () => (context.running = false) })
  },
  finish: async () => {
    for (const one of running) one.stop()
    await Promise.all(running.map(one => one.stopped))
    clearInterval(asking)
    log('close', 'invoke', `${name}-close`)
    await fp.close()
    await pool.end()
    log('close', 'ok', `${name}-close`, { left: await left() })
    say('finished')
  },
})
say('ready')
