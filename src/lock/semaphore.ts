import type { Lock } from './lock.ts'
import type { Section } from './section.ts'

export interface SemaphoreOptions {
  /** How many there are. The first acquire writes it down; who says another number later is refused. */
  readonly permits: number
}

/** What a semaphore needs of its client. @typeParam O the options of one acquire */
export interface SemaphoreHost<O> {
  ask(name: string, options: O, orNull: boolean, capacity: number): Promise<Lock | null>
  run<T>(name: string, options: O, section: Section<T> | undefined, capacity: number): Promise<T>
  resize(name: string, capacity: number): Promise<void>
}

/**
 * N permits under one name: who asks for n of them waits in line until so many are free, and nobody passes. A process that
 * dies gives its own back within its time to live.
 */
export class Semaphore<O extends object> {
  readonly name: string
  #permits: number
  readonly #host: SemaphoreHost<O>

  /** @internal */
  constructor(name: string, permits: number, host: SemaphoreHost<O>) {
    this.name = name
    this.#permits = permits
    this.#host = host
  }

  /** How many there are, by this object. */
  get permits(): number {
    return this.#permits
  }

  /** Waits in line for permits. @throws LimitMismatchError, and what `Fencepost.acquire` throws */
  acquire(options: O = {} as O): Promise<Lock> {
    return this.#host.ask(this.name, options, false, this.#permits) as Promise<Lock>
  }

  /** Permits if they are free and nobody is in line: null when not. @throws as `acquire` does, but for the wait */
  tryAcquire(options: Omit<O, 'timeout'> = {} as O): Promise<Lock | null> {
    return this.#host.ask(this.name, options as O, true, this.#permits)
  }

  /** Runs `section` with permits, and gives them back when that has ended. @throws as `Fencepost.withLock` does */
  async withPermits<T>(section: Section<T>): Promise<T>
  async withPermits<T>(options: O, section: Section<T>): Promise<T>
  async withPermits<T>(optionsOrSection: O | Section<T>, maybeSection?: Section<T>): Promise<T> {
    const [options, section] =
      typeof optionsOrSection === 'function' ? [{} as O, optionsOrSection] : [optionsOrSection, maybeSection]
    return await this.#host.run(this.name, options, section, this.#permits)
  }

  /**
   * Says how many there are from now on, for this object and in the database. Who holds permits keeps them, also where
   * these are more; who asks under the old number is refused, and so is who waits for more than there are.
   */
  async resize(permits: number): Promise<void> {
    await this.#host.resize(this.name, permits)
    this.#permits = permits
  }
}
