import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { defer } from './cleanup.mjs'
import { Refusal } from './refusal.mjs'

/**
 * What a peer is started with.
 * @typedef {object} Context
 * @property {string} url of the server that it needs; for PostgreSQL, of a database that was created for this start
 */

/**
 * One way to lock, as the benches drive it. A module in `peers/` exports one as `peer`.
 * @typedef {object} Peer
 * @property {string} name as printed
 * @property {string} version
 * @property {string} settings what makes this its fastest documented form
 * @property {'redis' | 'etcd' | 'postgres'} needs the server that it talks to
 * @property {(context: Context) => Promise<void>} start connects, and makes its tables
 * @property {(key: string) => Promise<void>} cycle acquires and releases; rejects unless the lock was granted and,
 *   where the peer tells, given back
 * @property {() => Promise<void>} stop disconnects; rejects if a lock was left behind
 */

/** @typedef {Pick<Peer, 'name' | 'version' | 'settings' | 'needs'>} Description */

/**
 * Starts a peer in a process of its own.
 * @param {string} module the file's name in `peers/`, without extension
 */
export async function startPeer(module) {
  const worker = fileURLToPath(new URL('./worker.mjs', import.meta.url))
  const peer = new URL(`../peers/${module}.mjs`, import.meta.url)
  const child = fork(worker, [peer.href], { execArgv: ['--expose-gc'] })
  const exited = once(child, 'exit')
  defer(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await exited
  })

  const reply = async () => {
    const gone = exited.then(([code, signal]) => ({ failure: `its process ended (${signal ?? code})` }))
    const [message] = await Promise.race([once(child, 'message'), gone.then(failure => [failure])])
    if (message.failure) throw new Refusal(`${module}: ${message.failure}`)
    return message
  }

  const { ready } = /** @type {{ ready: Description }} */ (await reply())
  return {
    ...ready,
    /**
     * @param {Context} context
     * @param {Parameters<typeof import('./measure.mjs').measure>[1]} load
     * @returns {Promise<import('./measure.mjs').Figures>}
     */
    async run(context, load) {
      child.send({ context, load })
      return (await reply()).figures
    },
  }
}
