import { getEventListeners } from 'node:events'
import { type Fencepost, FencepostError, type Lock } from '../../../src/index.ts'

/** One call of `acquire` or `tryAcquire`, and what became of it. */
export class Caller {
  readonly key: string
  /** Its label in the database. */
  readonly label: string
  /** Whether it may join the line. */
  readonly waits: boolean
  readonly timeout: number | undefined
  lock: Lock | undefined
  /** `null`: a try that found the key taken; text: the code of the error. */
  refused: string | null | undefined
  isAborted = false
  readonly #controller = new AbortController()

  constructor(
    client: Fencepost,
    key: string,
    label: string,
    how: { waits: boolean; timeout?: number },
    granted: (caller: Caller, lock: Lock) => void,
  ) {
    this.key = key
    this.label = label
    this.waits = how.waits
    this.timeout = how.timeout
    const { signal } = this.#controller
    const asked = how.waits
      ? client.acquire(key, { label, signal, ...(how.timeout !== undefined && { timeout: how.timeout }) })
      : client.tryAcquire(key, { label, signal })
    asked.then(
      lock => {
        if (!lock) {
          this.refused = null
          return
        }
        this.lock = lock
        granted(this, lock)
      },
      (error: unknown) => {
        this.refused = error instanceof FencepostError ? error.code : String(error)
      },
    )
  }

  get isDecided(): boolean {
    return this.lock !== undefined || this.refused !== undefined
  }

  get isWaiting(): boolean {
    return !this.isDecided
  }

  get isHolding(): boolean {
    return this.lock !== undefined && this.lock.state !== 'released'
  }

  abort(): void {
    this.isAborted = true
    this.#controller.abort()
  }

  get listeners(): number {
    return getEventListeners(this.#controller.signal, 'abort').length
  }
}
