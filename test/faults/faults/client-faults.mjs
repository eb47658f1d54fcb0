import { sleep } from '../history.mjs'

/**
 * Faults that strike one client: its process, or the wire between it and the server. `bite` names the effect that
 * `bit.mjs` counts.
 */
export const clientFaults = [
  {
    name: 'client-stopped',
    bite: 'expiredUnderLiveHolder',
    async run({ worker, random }) {
      worker.child.stop()
      await sleep(random.between(2_200, 3_200))
      worker.child.cont()
    },
  },
  {
    name: 'client-stopped-shortly',
    bite: 'stoppedShortly',
    async run({ worker, random, bit }) {
      worker.child.stop()
      await sleep(random.between(50, 1_200))
      worker.child.cont()
      bit('stoppedShortly')
    },
  },
  {
    name: 'client-killed',
    bite: 'killedHolderExpired',
    async run({ worker, respawn }) {
      await worker.child.kill()
      await respawn(worker)
    },
  },
  {
    name: 'loop-blocked',
    bite: 'lostByStall',
    async run({ worker, random }) {
      const ms = random.between(1_900, 2_800)
      worker.child.send('block', { ms })
      await sleep(ms)
    },
  },
  {
    name: 'wall-clock-moved',
    bite: 'suspended',
    async run({ worker, random }) {
      worker.child.send('wall', { ms: random.pick([-3_600_000, -5_000, 5_000, 3_600_000]) })
      await sleep(1_500)
      worker.child.send('wall', { ms: 0 })
    },
  },
  {
    name: 'pool-exhausted',
    bite: 'poolTimeouts',
    async run({ worker }) {
      worker.child.send('exhaust', { ms: 4_200 })
      await sleep(4_200)
    },
  },
  {
    name: 'notifications-dropped',
    bite: 'notificationsDropped',
    strikes: worker => worker.listens,
    async run({ worker }) {
      worker.child.send('deafen', { ms: 4_000 })
      await sleep(4_000)
    },
  },
  {
    name: 'cut',
    bite: 'connectionsCut',
    async run({ worker, random }) {
      for (let i = 0; i < 3; i++) {
        worker.proxy.cut()
        await sleep(random.between(20, 400))
      }
    },
  },
  {
    // As if its process were gone: the server ends what it had, and it cannot come back.
    name: 'abandoned',
    bite: 'connectionsCut',
    async run({ worker, random }) {
      await worker.proxy.accept(false)
      worker.proxy.cut()
      await sleep(random.between(1_300, 2_800))
      await worker.proxy.accept(true)
    },
  },
  {
    name: 'delay',
    bite: 'delayed',
    async run({ worker, random, bit }) {
      const before = worker.proxy.counters.bytes.toServer
      worker.proxy.delay(random.between(50, 300), random.pick(['toServer', 'toClient', undefined]))
      await sleep(2_000)
      worker.proxy.release()
      if (worker.proxy.counters.bytes.toServer > before) bit('delayed')
    },
  },
  {
    name: 'black-hole',
    bite: 'unreachable',
    async run({ worker, random }) {
      worker.proxy.blackHole(random.pick(['toServer', 'toClient', undefined]))
      await sleep(random.between(2_500, 3_500))
      worker.proxy.release()
    },
  },
  {
    // A renewal whose answer comes late, then none: trust is counted from the sending, or two believe.
    name: 'late-reply-then-dark',
    bite: 'unreachable',
    async run({ worker }) {
      worker.proxy.delay(550, 'toClient')
      await sleep(1_700)
      worker.proxy.blackHole()
      await sleep(2_600)
      worker.proxy.release()
    },
  },
  {
    // What was sent arrives after the session has expired: it must revive nothing.
    name: 'held-then-delivered',
    bite: 'unreachable',
    async run({ worker }) {
      worker.proxy.hold('toServer')
      await sleep(3_200)
      worker.proxy.release()
    },
  },
  lostReply('commit', 'unknownWriteFound', request => /commit/.test(request)),
  lostReply('acquire', 'repliesLost', request => /fencepost_acquire/.test(request)),
  lostReply('release', 'repliesLost', request => /fencepost_release/.test(request)),
]

/** The server has done it, and nobody is told. */
function lostReply(what, bite, match) {
  return {
    name: `reply-lost-${what}`,
    bite,
    async run({ worker, bit }) {
      for (let i = 0; i < 3; i++) {
        await Promise.race([worker.proxy.dropReplyAfter(match).then(() => bit('repliesLost')), sleep(1_000)])
        await sleep(150)
      }
    },
  }
}
