/** One of the processes: `node worker.mjs WAY`, with DATABASE_URL. Says on stdout, a word a line, what became of each try. */
import { setTimeout as pause } from 'node:timers/promises'
import { Fencepost } from 'fencepost'
import pg from 'pg'
import { ttl, ways } from './ways.mjs'

const { add } = ways[process.argv[2]]
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 2 })
pool.on('error', () => {})
pool.on('connect', client => client.on('error', () => {}))
const fp = new Fencepost({ pool, ttl, poll: 50 })
const think = () => pause(20 + Math.random() * 40)

let isOver = false
process.stdin.on('end', () => {
  isOver = true
})
process.stdin.resume()
console.log('ready')

while (!isOver) {
  let isDone = false
  try {
    await fp.withLock('counter', { timeout: 2_000 }, async lock => {
      console.log('holds')
      // Taken at the start, as a program does that hands it on: a token is not asked for again before each use.
      await add({ pool, lock, token: lock.token, think })
      isDone = true
      console.log('acknowledged')
    })
  } catch (error) {
    if (!isDone && error.code !== 'timed_out') console.log('refused')
  }
}
await fp.close()
await pool.end()
