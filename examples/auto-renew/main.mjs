/**
 * A lock outlives its ttl as long as its holder does: `npm run example -- auto-renew`. It is held for five times its ttl,
 * and on the way one heartbeat fails: somebody else's transaction has the session's row for longer than we wait for an
 * answer. Exit code 0: the lock was `degraded` for that time and never lost, nobody else was granted it, and it was handed
 * on when it was released. 1: not so.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Fencepost } from 'fencepost'
import { withServer } from '../server.mjs'

/** Milliseconds. */
const ttl = 4_000

process.exitCode = await withServer(async ({ pool, signal }) => {
  const fp = new Fencepost({ pool, ttl, owner: 'the holder' })
  const other = new Fencepost({ pool })
  const lock = await fp.acquire('nightly')
  const began = performance.now()
  const tell = what =>
    console.log(`${((performance.now() - began) / 1000).toFixed(1).padStart(4)} s  ${what}`)
  const states = []
  const look = () => {
    const { state, remaining } = lock
    if (state === states.at(-1)) return
    states.push(state)
    tell(`${state}, ${(remaining / 1000).toFixed(1)} s of trust left`)
  }
  look()
  const looking = setInterval(look, 10)
  try {
    const asked = { granted: 0, refused: 0 }
    const trouble = pause(1.5 * ttl).then(() => disturb(pool, lock, tell))
    while (performance.now() - began < 5 * ttl && !signal.aborted) {
      const grant = await other.tryAcquire('nightly')
      asked[grant ? 'granted' : 'refused'] += 1
      await grant?.release()
      await pause(100)
    }
    await trouble
    tell(
      `somebody else asked for it ${asked.refused + asked.granted} times, and got it ${asked.granted} times`,
    )
    clearInterval(looking)
    const { token } = lock
    const outcome = await lock.release()
    const next = await other.tryAcquire('nightly')
    tell(`${outcome}; somebody else has it now, with a higher token: ${next?.token > token}`)
    const wasKept = states.slice(0, 3).join() === 'held,degraded,held' && !states.includes('lost')
    return wasKept && outcome === 'released' && asked.granted === 0 && next?.token > token ? 0 : 1
  } finally {
    clearInterval(looking)
    await Promise.all([fp.close(), other.close()])
  }
})

/** Has the row of the holder's session until a heartbeat has failed for it. */
async function disturb(pool, lock, tell) {
  const client = await pool.connect()
  try {
    await client.query(`begin; select from fencepost.sessions where owner = 'the holder' for update`)
    tell('a transaction has locked the row that the heartbeat renews')
    while (lock.state === 'held') await pause(10)
    await client.query('rollback')
    tell('and has let go of it')
  } finally {
    client.release()
  }
}
