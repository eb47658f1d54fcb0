// A process with one client, that does what the test says; worker.ts is the test's half. It handles no stray rejection
// and no stray error event: either would end it.
import { Fencepost } from '../../dist/index.js'
import { listen, say } from '../support/worker.mjs'

const options = JSON.parse(process.argv[2])
const fp = new Fencepost(options)
const locks = new Map()
/** What a lock's state was, and when that was seen, by the clock that all processes of this machine share. */
const histories = new Map()
const clock = () => Number(process.hrtime.bigint() / 1000n) / 1000

/** Of several keys, of the first. */
const firstToken = lock => [...lock.tokens.values()][0]

/** Every gate of a handle, read in this turn, the named one first. */
function gates(lock, first = 'state') {
  const read = {
    state: () => lock.state,
    remaining: () => lock.remaining,
    aborted: () => lock.signal.aborted,
    assertHeld: () => lock.assertHeld(),
    token: () => firstToken(lock),
  }
  const seen = {}
  for (const gate of [first, ...Object.keys(read)]) {
    try {
      seen[gate] ??= read[gate]() ?? 'passed'
    } catch (error) {
      seen[gate] ??= error.code
    }
  }
  return seen
}

function watch(id, lock) {
  locks.set(id, lock)
  const history = []
  histories.set(id, history)
  const look = () => {
    const { state } = lock
    const last = history.at(-1)
    if (last?.state === state) last.until = clock()
    else history.push({ state, from: clock(), until: clock() })
  }
  look()
  lock.signal.addEventListener('abort', () => {
    look()
    say('aborted', { id, at: clock(), reason: lock.signal.reason.reason, state: lock.state })
  })
  setInterval(look, 2).unref()
}

listen({
  acquire: async ({ id, key, options, capacity }) => {
    try {
      const lock = await (capacity
        ? fp.semaphore(key, { permits: capacity }).acquire(options)
        : fp.acquire(key, options))
      const at = clock()
      watch(id, lock)
      say('granted', { id, key, at, token: firstToken(lock) })
    } catch (error) {
      say('refused', { id, key, at: clock(), code: error.code, reason: error.reason, message: error.message })
    }
  },
  release: async ({ id }) => {
    const outcome = await locks.get(id).release()
    say('released', { id, outcome, at: clock() })
  },
  gates: ({ id, first }) => say('gates', { id, at: clock(), ...gates(locks.get(id), first) }),
  history: ({ id }) => say('history', { id, history: histories.get(id) }),
  // Nothing else runs in this process meanwhile; then the gates are read before anything else can.
  block: ({ id, ms, first }) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
    say('gates', { id, at: clock(), ...gates(locks.get(id), first) })
  },
  // The wall clock of this process from now on.
  step: ({ ms }) => {
    const real = globalThis.realNow ?? Date.now
    globalThis.realNow = real
    Date.now = () => real.call(Date) + ms
    say('stepped')
  },
  time: () => say('time', { wall: Date.now(), monotonic: clock() }),
  close: async () => {
    await fp.close()
    say('closed')
    process.exit(0)
  },
})
say('ready')
