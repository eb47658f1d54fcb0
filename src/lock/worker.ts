/** What is left to do with an answer. It may wait until the next batch is on its way: the server need not wait for us. */
export type Rest = () => void

/** Runs one job after another as long as there is work: what comes meanwhile gathers into the next batch. */
export class Worker {
  readonly #step: (isRestLeft: boolean) => Promise<Rest | undefined> | undefined
  #isRunning = false
  #idle: (() => void)[] = []

  readonly #gathers: boolean

  /**
   * @param step one batch of work, or undefined when there is none, or none that may go before what is left of the last
   * @param gathers whether each batch waits until all promises have had their say, not the first alone
   */
  constructor(step: (isRestLeft: boolean) => Promise<Rest | undefined> | undefined, gathers = false) {
    this.#step = step
    this.#gathers = gathers
  }

  get isRunning(): boolean {
    return this.#isRunning
  }

  /** The first batch is what this turn of the event loop brings: a tick runs when all promises have had their say. */
  wake(): void {
    if (this.#isRunning) return
    this.#isRunning = true
    process.nextTick(() => void this.#run())
  }

  idle(): Promise<void> {
    if (!this.#isRunning) return Promise.resolve()
    return new Promise(resolve => this.#idle.push(resolve))
  }

  async #run(): Promise<void> {
    let rest: Rest | undefined
    for (;;) {
      const work = this.#step(rest !== undefined)
      if (!work && !rest) break
      const last = rest
      rest = undefined
      try {
        last?.()
      } catch (error) {
        tell(error)
      }
      try {
        rest = await work
      } catch (error) {
        tell(error)
      }
      if (this.#gathers) await new Promise<void>(resolve => process.nextTick(resolve))
    }
    this.#isRunning = false
    for (const resolve of this.#idle.splice(0)) resolve()
  }
}

/** Every step answers for its own failures; should one not, the loop must go on all the same. */
function tell(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error), 'FencepostWarning')
}
