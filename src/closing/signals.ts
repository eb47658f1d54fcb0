/**
 * Closing on a signal that asks the process to end.
 *
 *   listening --a signal--> closing --closed--> off, and the signal again: its default action ends the process
 *                              |  another signal: its default action, at once
 *   off: by the caller, or by the client when it is closed without a signal. The signal is then what it was before.
 */
import { constants } from 'node:os'

const handled = ['SIGTERM', 'SIGINT'] as const

type Handler = (signal: NodeJS.Signals) => void

/** Those of all clients: each of them closes, and the last one ends the process. */
const ours = new WeakSet<Handler>()

/** Takes the handlers off again, when it is called or disposed of. */
export interface SignalHandlers extends Disposable {
  (): void
}

export class ClosingSignals {
  readonly #close: () => Promise<void>
  #isClosing = false
  readonly #handle: Handler = signal => {
    if (this.#isClosing) endBy(signal)
    this.#isClosing = true
    const isShared = process.listeners(signal).some(each => !ours.has(each))
    const end = (): void => this.#end(signal, isShared)
    this.#close().then(end, end)
  }

  constructor(close: () => Promise<void>) {
    this.#close = close
    ours.add(this.#handle)
    // Before the others, to see who they are: one that listens once is gone when it has been called.
    for (const signal of handled) process.prependListener(signal, this.#handle)
  }

  get handlers(): SignalHandlers {
    const off = (): void => this.off()
    return Object.assign(off, { [Symbol.dispose]: off })
  }

  off(): void {
    for (const signal of handled) process.off(signal, this.#handle)
  }

  /** The client is closed. Where it was a signal that closed it, what comes of that is to come yet. */
  closed(): void {
    if (!this.#isClosing) this.off()
  }

  /** @param isShared somebody else had listened: that has an end of its own to come to */
  #end(signal: NodeJS.Signals, isShared: boolean): void {
    // Taken off meanwhile: the process is the caller's again.
    if (!process.listeners(signal).includes(this.#handle)) return
    this.off()
    if (!isShared && process.listenerCount(signal) === 0) endBy(signal)
  }
}

/** As if nobody had listened: so whoever waits for the process sees which signal it was. */
function endBy(signal: NodeJS.Signals): void {
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
  // Still here: the first process of a container has no default action. What a shell says of the others.
  process.exit(128 + constants.signals[signal])
}
