/**
 * Ends this process when a lock is lost and the event loop has not noticed: code that keeps the loop busy looks at no
 * clock, and no timer, handler or abort event can run beside it. A thread can.
 *
 *   off --something is held--> armed --renewed--> armed, for longer
 *    ^ nothing is held            |  trust ends
 *    |                            v
 *    +--the loss was told-- the loop's turn --it is over--> SIGKILL
 *
 * The loop says until when it trusts, and that it has told a loss; the thread only reads. Both count by the monotonic
 * clock of the system, which is one for all threads. A turn is half of the margin between the end of trust and the
 * moment at which the database may give the lock away: the process is gone by then. It counts from when the thread sees
 * that trust is over: where the whole process stood still, from when it goes on.
 */
import { existsSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { BadOptionError } from '../errors.ts'

/** What is where in the shared memory. Times are nanoseconds. */
const cells = {
  /** Rung when the thread is to look again. */
  bell: 0,
  /** When the thread looks by itself. */
  looksAt: 1,
  /** The soonest end of trust in what is held. */
  trustEnds: 2,
  /** How long the loop has from then on. */
  turn: 3,
}

const never = 2n ** 63n - 1n

/** What one session has the watchdog know. */
export interface Watch {
  /** It holds something, and trusts in it until then, by `performance.now()`. */
  until(trustEnds: number): void
  /** It holds nothing, or has told that all is lost. */
  off(): void
}

export class Watchdog {
  readonly #memory = new BigInt64Array(new SharedArrayBuffer(Object.keys(cells).length * 8))
  /** The end of trust of each session that holds something, and its turn. */
  readonly #armed = new Map<Watch, { readonly trustEnds: bigint; readonly turn: bigint }>()
  readonly #thread: Worker

  /** @param failed is called when the thread has ended by itself: nothing is watched any more */
  constructor(failed: (error: Error) => void) {
    const program = new URL('./thread.mjs', import.meta.url)
    if (!existsSync(program)) {
      throw new BadOptionError(
        `watchdog: ${program} is not there: a bundler has to take it along, or leave fencepost out of the bundle`,
      )
    }
    this.#memory[cells.looksAt] = never
    this.#memory[cells.trustEnds] = never
    // Without what this process was told to load first: the thread runs nothing but its own lines.
    this.#thread = new Worker(program, {
      name: 'fencepost watchdog',
      workerData: { memory: this.#memory, cells, never },
      execArgv: [],
      env: {},
    })
    this.#thread.on('error', failed)
    this.#thread.unref()
  }

  /** @param turn milliseconds that the loop has to notice that trust is over */
  watch(turn: number): Watch {
    const watch: Watch = {
      until: trustEnds => {
        const left = nanoseconds(trustEnds - performance.now())
        this.#armed.set(watch, { trustEnds: process.hrtime.bigint() + left, turn: nanoseconds(turn) })
        this.#tell()
      },
      off: () => {
        if (this.#armed.delete(watch)) this.#tell()
      },
    }
    return watch
  }

  async close(): Promise<void> {
    await this.#thread.terminate()
  }

  #tell(): void {
    let soonest = { trustEnds: never, turn: 0n }
    for (const each of this.#armed.values()) if (each.trustEnds < soonest.trustEnds) soonest = each
    Atomics.store(this.#memory, cells.turn, soonest.turn)
    Atomics.store(this.#memory, cells.trustEnds, soonest.trustEnds)
    // A lock that is taken and released again and again need not wake anybody.
    if (soonest.trustEnds >= Atomics.load(this.#memory, cells.looksAt)) return
    Atomics.add(this.#memory, cells.bell, 1n)
    Atomics.notify(this.#memory, cells.bell)
  }
}

function nanoseconds(milliseconds: number): bigint {
  return BigInt(Math.round(milliseconds * 1e6))
}
