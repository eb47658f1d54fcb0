// For restarted.test.ts: holds a lock and waits for another, gives both up while the server is away, and has nothing
// more to do.
import { Fencepost } from '../../dist/index.js'
import { listen, say } from '../support/worker.mjs'

const fp = new Fencepost(JSON.parse(process.argv[2]))
const giveUp = new AbortController()
const lock = await fp.acquire('k')
const waiting = fp.acquire('k', { signal: giveUp.signal })
say('holding')
listen({
  // No more of the parent, which would keep this process alive; and no close.
  'give up': async () => {
    process.stdin.destroy()
    giveUp.abort()
    const error = await waiting.catch(error => error)
    const outcome = await lock.release()
    say('idle', { outcome, code: error.code })
  },
})
