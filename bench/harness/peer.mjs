import { startProcess } from './process.mjs'

/**
 * What a peer is started with.
 * @typedef {object} Context
 * @property {string} url of the server that it needs; for PostgreSQL, of a database that was created for this start
 * @property {number} [waiters] how many may wait at once, where each takes a connection
 */

/**
 * What is asked for, where it is not an exclusive lock.
 * @typedef {object} Terms
 * @property {'shared'} [mode]
 * @property {number} [capacity] a permit of so many
 */

/**
 * One way to lock, as the benches drive it. A module in `peers/` exports one as `peer`.
 * @typedef {object} Peer
 * @property {string} name as printed
 * @property {string} version
 * @property {string} settings what makes this its fastest documented form
 * @property {'redis' | 'etcd' | 'postgres'} needs the server that it talks to
 * @property {(context: Context) => Promise<void>} start connects, and makes its tables
 * @property {(key: string, granted?: () => void) => Promise<void>} cycle acquires and releases, and calls `granted`
 *   between the two; rejects unless the lock was granted and, where the peer tells, given back
 * @property {(key: string, terms: Terms, work: () => Promise<void>) => Promise<void>} [under] acquires on these terms, and
 *   releases when `work` has ended
 * @property {() => number} [passed] grants so far that were passed on inside the process, without the server
 * @property {(holding: { locks: number, ttl?: number }) => Promise<void>} [hold] acquires so many and keeps them, with
 *   a ttl of so many milliseconds
 * @property {() => Promise<number>} [letGo] releases them; how many had been lost
 * @property {() => Promise<void>} stop disconnects; rejects if a lock was left behind
 */

/** @typedef {Pick<Peer, 'name' | 'version' | 'settings' | 'needs'>} Description */
/** @typedef {Awaited<ReturnType<typeof startPeer>>} Worker */

/**
 * Starts a peer in a process of its own.
 * @param {string} module the file's name in `peers/`, without extension
 */
export async function startPeer(module) {
  const peer = new URL(`../peers/${module}.mjs`, import.meta.url)
  const { ready, call } = await startProcess('worker.mjs', [peer.href], module)
  /** @type {Description} */
  const description = ready
  return {
    module,
    ...description,
    /** @param {Context} context */
    start: context => call('start', context),
    /**
     * @param {import('./measure.mjs').Load} load
     * @returns {Promise<import('./measure.mjs').Figures>}
     */
    measure: load => call('measure', load),
    /**
     * @param {import('./series.mjs').Run} run
     * @returns {Promise<number[]>}
     */
    series: run => call('series', run),
    /**
     * @param {import('./contest.mjs').Terms} terms
     * @returns {Promise<import('./contest.mjs').Outcome & { passed: number }>}
     */
    contend: terms => call('contend', terms),
    /**
     * @param {import('./sections.mjs').Work} work
     * @returns {Promise<import('./sections.mjs').Had[]>}
     */
    sections: work => call('sections', work),
    /** Grants of the contest that is on. @returns {Promise<number>} */
    tally: () => call('tally'),
    /** Ends it. */
    finish: () => call('finish'),
    /** One cycle. @param {string} key */
    cycle: key => call('cycle', key),
    /** @param {{ locks: number, ttl?: number }} holding */
    hold: holding => call('hold', holding),
    /** @returns {Promise<number>} */
    letGo: () => call('letGo'),
    stop: () => call('stop'),
    /**
     * A measurement from start to stop.
     * @param {Context} context
     * @param {import('./measure.mjs').Load} load
     * @returns {Promise<import('./measure.mjs').Figures>}
     */
    async run(context, load) {
      await call('start', context)
      try {
        return await call('measure', load)
      } finally {
        await call('stop')
      }
    },
  }
}
