// For soak.test.ts: several tasks that take hot and cold keys in all ways, and say when they believed to hold what.
import { Fencepost } from '../../dist/index.js'
import { listen, say } from '../support/worker.mjs'

const { tasks, hot, cold, ...options } = JSON.parse(process.argv[2])
const fp = new Fencepost(options)
const clock = () => Number(process.hrtime.bigint() / 1000n) / 1000
const pause = ms => new Promise(resolve => setTimeout(resolve, ms))
const among = count => Math.floor(Math.random() * count)
const counts = { granted: 0, timed_out: 0, aborted: 0, lost: 0, busy: 0, unreachable: 0 }
let running = true

/** Works under a lock for a moment, as long as it believes that it holds it. */
async function section(key, lock) {
  counts.granted++
  const { token } = lock
  let last = clock()
  say('enter', { key, token, at: last })
  const work = Math.random() < 0.02 ? 300 : among(6)
  const began = performance.now()
  do {
    await (work > 5 ? pause(2) : new Promise(setImmediate))
    const { state } = lock
    if (state !== 'held' && state !== 'degraded') break
    last = clock()
  } while (performance.now() - began < work)
  say('leave', { token, at: last })
  const outcome = await lock.release()
  if (outcome !== 'released') counts.lost++
}

async function once() {
  const key = Math.random() < 0.3 ? `hot ${among(hot)}` : `cold ${among(cold)}`
  const way = Math.random()
  if (way < 0.1) {
    const lock = await fp.tryAcquire(key)
    if (lock) await section(key, lock)
    else counts.busy++
  } else if (way < 0.3) await section(key, await fp.acquire(key, { timeout: among(20) }))
  else if (way < 0.5) {
    const giveUp = new AbortController()
    const timer = setTimeout(() => giveUp.abort(), among(20))
    try {
      await section(key, await fp.acquire(key, { signal: giveUp.signal }))
    } finally {
      clearTimeout(timer)
    }
  } else await section(key, await fp.acquire(key, { timeout: 5_000 }))
}

async function task() {
  while (running) {
    try {
      await once()
    } catch (error) {
      if (counts[error.code] === undefined) throw error
      counts[error.code]++
    }
  }
}

const all = Promise.all(Array.from({ length: tasks }, task))
listen({
  stop: async () => {
    running = false
    await all
    say('stopped', { counts })
  },
  close: async () => {
    await fp.close()
    say('closed')
    process.exit(0)
  },
})
say('ready')
