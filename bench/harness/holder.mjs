// A process that holds keys, each by a client and a session of its own, or waits for them all by one.
import { setTimeout as pause } from 'node:timers/promises'
import { answer, say } from './answering.mjs'
import { monotonic } from './clock.mjs'

/**
 * What is known of a key that this process holds or held.
 * @typedef {object} Account
 * @property {string} key
 * @property {'held' | 'degraded' | 'suspended' | 'released' | 'lost'} state
 * @property {string | undefined} reason why it was lost
 * @property {number | undefined} toldAt when the abort event came, by `monotonic()`
 * @property {number} believedUntil the last look that found it held, in milliseconds since 1970
 */

/** @typedef {{ key: string, client: any, lock: any, toldAt: number | undefined, believedUntil: number }} Kept */

/** Milliseconds between two looks at the handles. */
const every = 5

const { Fencepost } = await import(process.env.FENCEPOST_BUILD ?? '../../dist/index.js')

/** @type {Kept[]} */
const held = []
/** @type {any} */
let waiting
/** @type {any[]} */
const granted = []

const look = () => {
  for (const kept of held) {
    // Read before the answer: what it says holds for that moment at least.
    const at = Date.now()
    const { state } = kept.lock
    if (state === 'held' || state === 'degraded') kept.believedUntil = at
  }
}

/** @param {{ url: string, ttl: number, keys: readonly string[] }} terms */
async function hold({ url, ttl, keys }) {
  const take = async (/** @type {string} */ key) => {
    // So that their heartbeats fall at different times, and connections are not all opened at once.
    await pause(Math.random() * Math.max(ttl / 3, 2_000))
    const client = new Fencepost({ connectionString: url, ttl, listen: false })
    // While connections are opened the shortest ttl may be over before its first heartbeat is answered.
    for (;;) {
      const lock = await client.acquire(key).catch(whenLost)
      if (!lock) continue
      /** @type {Kept} */
      const one = { key, client, lock, toldAt: undefined, believedUntil: 0 }
      lock.signal.addEventListener('abort', () => {
        one.toldAt = monotonic()
      })
      return one
    }
  }
  held.push(...(await Promise.all(keys.map(take))))
  setInterval(look, every)
}

const whenLost = (/** @type {any} */ error) => {
  if (error.code !== 'lost') throw error
}

await answer(async () => ({
  ready: undefined,
  calls: {
    hold,
    /** @returns {Account[]} */
    look: () => {
      look()
      return held.map(({ key, lock, toldAt, believedUntil }) => ({
        key,
        state: lock.state,
        reason: lock.lossReason,
        toldAt,
        believedUntil,
      }))
    },
    /** Says when it is granted each; the news come later. @param {{ url: string, ttl: number, keys: readonly string[] }} terms */
    wait({ url, ttl, keys }) {
      waiting ??= new Fencepost({ connectionString: url, ttl })
      for (const key of keys) {
        waiting.acquire(key).then(
          (/** @type {any} */ lock) => {
            granted.push(lock)
            say({ key, at: monotonic() })
          },
          (/** @type {any} */ error) => say({ key, failure: error.message }),
        )
      }
    },
    letGo: () => Promise.all(granted.splice(0).map(lock => lock.release())),
    close: () => Promise.all([waiting, ...held.map(({ client }) => client)].map(client => client?.close())),
  },
}))
