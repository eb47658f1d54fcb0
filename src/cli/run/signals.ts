/** SIGKILL and SIGSTOP cannot be caught; for the stop of a terminal see job-control.ts. */
const passedOn = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH'] as const

/** By these a terminal speaks to all of the processes in its foreground at once. */
const fromTerminal: ReadonlySet<NodeJS.Signals> = new Set(['SIGINT', 'SIGQUIT', 'SIGWINCH'])

/** By these a person or a supervisor asks a process to end. */
const ending: ReadonlySet<NodeJS.Signals> = new Set(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'])

type Receiver = (signal: NodeJS.Signals) => void

/** The signals that this process gets, from now on until `stop`. */
export class Signals {
  readonly #gaveUp = new AbortController()
  #receive: Receiver = () => {}
  readonly #listener = (signal: NodeJS.Signals) => {
    if (ending.has(signal)) this.#gaveUp.abort(signal)
    this.#receive(signal)
  }

  constructor() {
    for (const signal of passedOn) process.on(signal, this.#listener)
  }

  /** Aborted, with the signal as its reason, when one asked us to end. */
  get gaveUp(): AbortSignal {
    return this.#gaveUp.signal
  }

  /** @param sharesTerminal the command is in our process group, and the terminal tells it what it tells us */
  passTo(receive: Receiver, sharesTerminal: boolean): void {
    this.#receive = signal => {
      if (!sharesTerminal || !fromTerminal.has(signal)) receive(signal)
    }
  }

  /** The command has ended: there is nobody to pass them on to. */
  ignore(): void {
    this.#receive = () => {}
  }

  stop(): void {
    for (const signal of passedOn) process.off(signal, this.#listener)
  }
}
