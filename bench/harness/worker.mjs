// A process of its own for one peer: no peer runs on code that another one's use has made slower, and none on a heap
// that another one has filled.
import { answer } from './answering.mjs'
import { Contest } from './contest.mjs'
import { measure } from './measure.mjs'
import { workSections } from './sections.mjs'
import { series } from './series.mjs'

const [peerModule = ''] = process.argv.slice(2)

await answer(async () => {
  /** @type {{ peer: import('./peer.mjs').Peer }} */
  const { peer } = await import(peerModule)
  const { name, version, settings, needs } = peer
  return { ready: { name, version, settings, needs }, calls: callsOf(peer) }
})

/**
 * What the parent may call.
 * @param {import('./peer.mjs').Peer} peer
 */
function callsOf(peer) {
  /** @type {Contest | undefined} */
  let contest
  const cycle = peer.cycle.bind(peer)
  return {
    /** @param {import('./peer.mjs').Context} context */
    async start(context) {
      await peer.start(context)
      globalThis.gc?.()
    },
    /** @param {import('./measure.mjs').Load} load */
    measure: load => measure(cycle, load),
    /** @param {import('./series.mjs').Run} run */
    series: run => series(cycle, run),
    /** @param {import('./contest.mjs').Terms} terms */
    async contend(terms) {
      const before = peer.passed?.() ?? 0
      contest = new Contest(cycle, terms)
      const outcome = await contest.run()
      return { ...outcome, passed: (peer.passed?.() ?? 0) - before }
    },
    /** @param {import('./sections.mjs').Work} work */
    sections(work) {
      if (!peer.under) throw new Error(`${peer.name} has no sections`)
      return workSections(peer.under.bind(peer), work)
    },
    tally: () => contest?.grants ?? 0,
    finish: () => contest?.finish(),
    /** @param {string} key */
    cycle: key => peer.cycle(key),
    /** @param {{ locks: number, ttl?: number }} holding */
    hold: holding => peer.hold?.(holding),
    letGo: () => peer.letGo?.(),
    stop: () => peer.stop(),
  }
}
