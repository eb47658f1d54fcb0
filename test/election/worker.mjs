// A process that leads, and does not stop when it is told to, unless it is.
import { listen, say } from '../support/worker.mjs'

const { Fencepost } = await import('../../dist/index.js')
const { url, schema, ttl, stubborn, by, ...options } = JSON.parse(process.argv[2] ?? '{}')
const fp = new Fencepost({ connectionString: url, schema, ttl })
const election = fp.election('e', { onLost: 'exit', ...options })

/** Until it is told to end, or, if it listens, that its term does. */
function work({ token, signal }) {
  say('elected', { token })
  return new Promise(resolve => {
    signal.addEventListener('abort', () => {
      say('told', { code: signal.reason.code, reason: signal.reason.reason })
      if (!stubborn) resolve()
    })
    end = resolve
  })
}
let end = () => {}

listen({
  end: () => end(),
  resign: async () => say('resigned', { outcome: await election.resign() }),
  close: async ({ timeout }) => {
    await fp.close({ timeout })
    say('closed')
  },
})
if (by === 'lead') await election.lead(work)
else void work(await election.campaign())
