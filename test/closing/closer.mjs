// For the tests of closing: a process with one client, or two. Arguments: how to connect, and what to do.
import { writeSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { Fencepost } from '../../dist/index.js'
import { say } from '../support/worker.mjs'

const options = JSON.parse(process.argv[2])
const client = () => new Fencepost(options)
const fp = client()
const never = new Promise(() => {})
const aborted = signal => new Promise(resolve => signal.addEventListener('abort', resolve))

/** As a server that listens: nothing that we do lets it end by itself. */
const stay = () => setInterval(() => {}, 60_000)

/** The last word of a process that ends by itself: for how many milliseconds it did not, once its client was closed. */
function closed(fields = {}) {
  const at = performance.now()
  say('closed', fields)
  process.on('exit', () => {
    writeSync(1, `${JSON.stringify({ name: 'exit', lingered: performance.now() - at })}\n`)
  })
}

async function work({ signal }) {
  say('inside')
  await aborted(signal)
  say('told', { reason: signal.reason.reason })
}

/** Goes on under the lock for a while after it was told, as long as the other side of the database can see it. */
async function finish(lock) {
  await work(lock)
  await lock.renew()
  say('leaving', { state: lock.state })
}

async function outlast(lock) {
  await work(lock)
  await never
}

const deeds = {
  finishes: async () => {
    stay()
    fp.closeOnSignals({ timeout: '1m' })
    await fp.withLock('k', finish)
    say('left')
  },
  'never finishes': async () => {
    stay()
    fp.closeOnSignals({ timeout: '10m' })
    await fp.withLock('k', outlast)
  },
  'has not long': async () => {
    stay()
    fp.closeOnSignals({ timeout: 100 })
    await fp.withLock('k', outlast)
  },
  'holds by hand': async () => {
    stay()
    fp.closeOnSignals({ timeout: '10m' })
    await work(await fp.acquire('k'))
  },
  'takes them off': async () => {
    stay()
    fp.closeOnSignals({ timeout: '10m' })()
    await fp.withLock('k', outlast)
  },
  'takes them off when told': async () => {
    stay()
    const off = fp.closeOnSignals({ timeout: 100 })
    await fp.withLock('k', async lock => {
      await work(lock)
      off()
      await fp.close()
      say('closed')
      process.exit(5)
    })
  },
  waits: async () => {
    stay()
    fp.closeOnSignals()
    await fp.acquire('taken').catch(({ code }) => say('refused', { code }))
  },
  'is not alone in listening': async () => {
    stay()
    process.once('SIGTERM', async () => {
      await fp.close()
      await pause(100)
      process.exit(7)
    })
    fp.closeOnSignals({ timeout: '1m' })
    await fp.withLock('k', finish)
  },
  'has two clients': async () => {
    stay()
    const other = client()
    fp.closeOnSignals({ timeout: '1m' })
    other.closeOnSignals({ timeout: '1m' })
    await Promise.all([fp.withLock('k', finish), other.withLock('l', finish)])
  },
  // What follows ends without a signal, or not at all.
  closes: async () => {
    await fp.acquire('k')
    await fp.close()
    closed()
  },
  'closes under transactions': async () => {
    const lock = await fp.acquire('k')
    let begun = 0
    const transaction = lock.transaction(async () => {
      begun += 1
      await never
    })
    // More than the pool has clients: some of them wait for one.
    const locks = await Promise.all(Array.from({ length: 6 }, (_, i) => fp.acquire(`k ${i}`)))
    const others = locks.map(each =>
      each.transaction(async () => {
        begun += 1
        await never
      }),
    )
    const all = Promise.allSettled([transaction, ...others])
    while (begun < 5) await new Promise(setImmediate)
    await fp.close({ timeout: 100 })
    closed({ reasons: (await all).map(({ reason }) => `${reason.code} ${reason.reason}`) })
  },
  'closes before it is let in': async () => {
    const refused = fp.acquire('k').catch(({ code }) => code)
    await new Promise(resolve => process.once('SIGUSR2', resolve))
    await fp.close()
    closed({ code: await refused })
  },
  'closes a black hole': async () => {
    const lock = await fp.acquire('k')
    const idle = await fp.acquire('l')
    await lock.transaction(() => {})
    const transaction = lock.transaction(async () => {
      say('inside')
      await new Promise(resolve => process.once('SIGUSR2', resolve))
    })
    const another = new Promise(resolve => process.once('SIGUSR2', resolve)).then(() =>
      idle.transaction(() => {}),
    )
    const all = Promise.allSettled([transaction, another])
    await new Promise(resolve => process.once('SIGUSR2', resolve))
    await fp.close({ timeout: 0 })
    closed({ codes: (await all).map(({ reason }) => reason.code) })
  },
  'uses a pool': async () => {
    const pool = new pg.Pool({ connectionString: options.connectionString, allowExitOnIdle: true })
    const pooled = new Fencepost({ ...options, connectionString: undefined, pool })
    const lock = await pooled.acquire('k')
    await lock.transaction(() => {})
    await pooled.close()
    const { rows } = await pool.query('select 1 as one')
    closed({ rows, clients: pool.totalCount })
  },
}

await deeds[process.argv[3]]()
