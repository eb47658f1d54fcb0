// A process of its own for one peer: no peer runs on code that another one's use has made slower, and none on a heap
// that another one has filled. The parent sends one load at a time; the worker answers with the figures.
import { measure } from './measure.mjs'
import { describeError } from './refusal.mjs'

const [peerModule = ''] = process.argv.slice(2)

process.on('disconnect', () => process.exit())
// A Ctrl-C reaches the whole group: the parent decides.
process.on('SIGINT', () => {})

try {
  /** @type {{ peer: import('./peer.mjs').Peer }} */
  const { peer } = await import(peerModule)
  const { name, version, settings, needs } = peer
  process.on('message', async (/** @type {any} */ { context, load }) => {
    process.send?.(
      await run(peer, context, load).then(
        figures => ({ figures }),
        error => ({ failure: describeError(error) }),
      ),
    )
  })
  process.send?.({ ready: { name, version, settings, needs } })
} catch (error) {
  process.send?.({ failure: describeError(error) })
}

/**
 * @param {import('./peer.mjs').Peer} peer
 * @param {import('./peer.mjs').Context} context
 * @param {Parameters<typeof measure>[1]} load
 */
async function run(peer, context, load) {
  await peer.start(context)
  try {
    globalThis.gc?.()
    return await measure(key => peer.cycle(key), load)
  } finally {
    await peer.stop()
  }
}
