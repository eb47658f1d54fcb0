/** Works under a lock until it is told to go. */
import { setTimeout as pause } from 'node:timers/promises'
import { Fencepost } from 'fencepost'

const say = message => console.log(JSON.stringify(message))
const fp = new Fencepost({ connectionString: process.env.DATABASE_URL, ttl: '30s' })
fp.closeOnSignals({ timeout: '10s' })
// As a server that listens does: it would keep the process alive for good.
setInterval(() => {}, 60_000)

await fp.withLock('report', async lock => {
  say({ event: 'holds', token: String(lock.token) })
  let steps = 0
  while (!lock.signal.aborted) {
    await pause(100)
    steps += 1
  }
  say({ event: 'stopped', steps, reason: lock.signal.reason.reason, state: lock.state })
})
