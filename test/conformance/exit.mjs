// For exit.test.ts: uses a client and never closes it. Arguments: how to connect, and what to do.
import { writeSync } from 'node:fs'
import pg from 'pg'
import { Fencepost } from '../../dist/index.js'

const { way, url, listenUrl, schema } = JSON.parse(process.argv[2])
const deeds = {
  releases: async fp => {
    await (await fp.acquire('k')).release()
  },
  'runs a section': async fp => {
    await fp.withLock('k', () => {})
  },
  'gives up': async fp => {
    await fp.acquire('taken', { timeout: 30 }).catch(error => {
      if (error.code !== 'timed_out') throw error
    })
  },
  'is refused': async fp => {
    if ((await fp.tryAcquire('taken')) !== null) throw new Error('it was free')
  },
  'releases at last': async fp => {
    const lock = await fp.acquire('k')
    void lock.release()
  },
  waits: async fp => {
    const lock = await fp.acquire('taken')
    await lock.release()
  },
  holds: async fp => {
    await fp.acquire('k')
  },
}

const ways = {
  'a pool': () => ({ pool: new pg.Pool({ connectionString: url }) }),
  'a connection string': () => ({ connectionString: url }),
  'a pool, without listening': () => ({ pool: new pg.Pool({ connectionString: url }), listen: false }),
  'a pool, listening elsewhere': () => ({
    pool: new pg.Pool({ connectionString: url }),
    listen: { connectionString: listenUrl },
  }),
  'a query function': () => ({ pool: queryFunction() }),
  'a query function, listening elsewhere': () => ({
    pool: queryFunction(),
    listen: { connectionString: listenUrl },
  }),
}

function queryFunction() {
  const pool = new pg.Pool({ connectionString: url, allowExitOnIdle: true })
  return { query: (text, values) => pool.query(text, values) }
}

const deed = process.argv[3]
const began = performance.now()
await deeds[deed](new Fencepost({ ...ways[way](), schema }))
const done = performance.now() - began
process.on('exit', code => {
  const name = code === 0 ? 'exit' : 'failed'
  writeSync(1, `${JSON.stringify({ name, code, lingered: performance.now() - began - done })}\n`)
})
