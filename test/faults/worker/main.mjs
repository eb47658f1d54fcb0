// One process of the campaign: a client of Fencepost with a pool of its own, and actors that use it.
import pg from 'pg'
import { listen, say } from '../../support/worker.mjs'
import { actors } from '../actors/index.mjs'
import { now, recorder, sleep } from '../history.mjs'
import { Random } from '../random.mjs'
import { deaf, moveWall } from './seams.mjs'

const { name, seed, folder, url, listens, only, copies } = JSON.parse(process.argv[2] ?? '{}')
const { Fencepost } = await import('../../../dist/index.js')
const log = recorder(folder, name)
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
const fp = new Fencepost({ pool, ttl: '2s', owner: name, listen: listens })

let unhandled = 0
for (const event of ['unhandledRejection', 'uncaughtException']) {
  process.on(event, error => {
    unhandled++
    log('unhandled', 'fail', `${name}-unhandled-${unhandled}`, { message: String(error?.stack ?? error) })
  })
}

let number = 0
const context = index => ({
  name,
  url,
  fp,
  pool,
  log,
  random: new Random(`${seed} ${name} ${index}`),
  id: () => `${name}-${++number}`,
  running: true,
})

/** @type {{ context: any, stopped: Promise<void>, stop: () => void }[]} */
const running = actors
  .filter(actor => only === undefined || only.includes(actor.name))
  .flatMap(actor =>
    Array.from({ length: copies === undefined ? actor.copies : (copies[actor.name] ?? 0) }, (_, copy) => {
      const own = context(`${actor.name} ${copy}`)
      return { context: own, stopped: actor.start(own), stop: () => (own.running = false) }
    }),
  )

/** Timers and sockets that keep the process alive, once those that were just closed have had a second. */
async function left() {
  const busy = () => process.getActiveResourcesInfo().filter(kind => /^(Timeout|TCP)/.test(kind))
  const until = now() + 1_000
  // A timer would be one more.
  while (busy().length > 0 && now() < until) await new Promise(resolve => setImmediate(resolve))
  return busy()
}

listen({
  block: ({ ms }) => {
    const until = process.hrtime.bigint() + BigInt(Math.round(ms * 1e6))
    while (process.hrtime.bigint() < until);
  },
  wall: ({ ms }) => moveWall(ms),
  deafen: async ({ ms }) => {
    const before = deaf.dropped
    deaf(ms)
    await sleep(ms)
    log('deaf', 'ok', `${name}-deaf`, { dropped: deaf.dropped - before })
  },
  exhaust: async ({ ms }) => {
    const taken = await Promise.allSettled(Array.from({ length: 6 }, () => pool.connect()))
    await sleep(ms)
    for (const one of taken) if (one.status === 'fulfilled') one.value.release()
  },
  finish: async () => {
    for (const one of running) one.stop()
    await Promise.all(running.map(one => one.stopped))
    log('close', 'invoke', `${name}-close`)
    await fp.close()
    await pool.end()
    log('close', 'ok', `${name}-close`, { left: await left() })
    say('finished')
  },
})
say('ready')
