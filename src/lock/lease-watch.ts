import type { Lock } from './lock.ts'

/** Milliseconds between two looks while the lock is suspended: the next answer says whether it is held. */
const suspendedLook = 100
/** And while it is held. */
const leastLook = 250

/**
 * Tells when what runs under a lock must begin to end: as long before trust ends as the grace takes, so that nothing of it
 * is left when the database may give the lock to another; or at once, with nothing left, when the lock is lost before.
 */
export class LeaseWatch {
  readonly #lock: Lock
  readonly #grace: number
  readonly #end: (left: number) => void
  readonly #lost = () => this.look()
  #timer: NodeJS.Timeout | undefined
  #isOver = false

  /** @param grace milliseconds @param end is given the milliseconds of trust that are left; again, with 0, at a loss */
  constructor(lock: Lock, grace: number, end: (left: number) => void) {
    this.#lock = lock
    this.#grace = grace
    this.#end = end
    lock.signal.addEventListener('abort', this.#lost)
    this.look()
  }

  /** Looks at the clock now. False: it is to end, and has been told. */
  look(): boolean {
    const { state, remaining } = this.#lock
    if (state === 'lost') this.#tell(0)
    else if (!this.#isOver && state === 'suspended') this.#again(suspendedLook)
    else if (!this.#isOver && remaining <= this.#grace) this.#tell(remaining)
    // Trust may become shorter meanwhile, where the session comes to show presence.
    else if (!this.#isOver)
      this.#again(Math.min(remaining - this.#grace, Math.max(this.#grace / 4, leastLook)))
    return !this.#isOver
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#lock.signal.removeEventListener('abort', this.#lost)
  }

  #tell(left: number): void {
    clearTimeout(this.#timer)
    this.#isOver = true
    this.#end(left)
  }

  #again(delay: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.look(), delay)
    this.#timer.unref()
  }
}
