/** Where callers come in: what they ask for is read, and taken to the desk; what they have already, to nobody. */
import type { RunningWork } from './closing/running-work.ts'
import { AbortedError, BadOptionError, ClosedError } from './errors.ts'
import { whileAlive } from './keep-alive.ts'
import type { Desk } from './lock/desk.ts'
import type { Line } from './lock/line.ts'
import type { Lock } from './lock/lock.ts'
import { Request, type RequestOptions, type RequestOwner } from './lock/request.ts'
import { runSection, type Section } from './lock/section.ts'
import type { SemaphoreHost } from './lock/semaphore.ts'
import { entry, reenter, Tasks } from './lock/tasks.ts'
import { type Metrics, outcomeOf } from './metrics.ts'
import { fullKey } from './options.ts'
import type { Apart } from './session/use.ts'
import {
  type AcquireOptions,
  mostPermits,
  type PermitOptions,
  readPermits,
  readRequest,
  type Settings,
} from './settings.ts'

export interface AcquiringHost {
  readonly settings: Settings
  readonly line: Line
  readonly desk: Desk
  readonly running: RunningWork
  readonly metrics: Metrics
  /** @throws UnhealthyError */
  checkHealth(): void
  isClosed(): boolean
}

type Keys = string | readonly string[]

export class Acquiring implements SemaphoreHost<PermitOptions> {
  readonly #host: AcquiringHost
  readonly #tasks = new Tasks()
  readonly #requestOwner: RequestOwner

  constructor(host: AcquiringHost) {
    this.#host = host
    const { desk, line, metrics } = host
    this.#requestOwner = {
      onGivenUp: request => {
        if (request.stage === 'queued') desk.cancel(request)
      },
      onDone: (request, outcome) => {
        if (outcome === 'granted') metrics.granted(request.since)
        else metrics.notGranted(outcome)
        line.remove(request)
      },
    }
  }

  /** @param capacity of the semaphore whose permits are asked for; undefined: a lock is */
  ask(keys: Keys, options: AcquireOptions, orNull: boolean, capacity?: number): Promise<Lock | null> {
    return this.#ask(keys, options, orNull, capacity).promise
  }

  /** Under a session that it does not share. */
  askApart(key: string, options: AcquireOptions, apart: Apart | undefined): Promise<Lock> {
    return this.#ask(key, options, false, undefined, apart).promise as Promise<Lock>
  }

  async run<T>(
    keys: Keys,
    options: AcquireOptions,
    section: Section<T> | undefined,
    capacity?: number,
    apart?: Apart,
  ): Promise<T> {
    if (typeof section !== 'function') throw new BadOptionError('want a function to run under the lock')
    const entered = entry()
    const { promise, id } = this.#ask(keys, options, false, capacity, apart)
    const lock = (await promise) as Lock
    // The grant and the close may meet. A section that goes on may enter its own key once more.
    if (id !== undefined && this.#host.isClosed()) {
      await lock.release()
      this.#checkOpen()
    }
    return await this.#host.running.run(
      runSection(lock, held =>
        id === undefined ? section(held) : this.#tasks.run(held, id, entered, () => section(held)),
      ),
    )
  }

  /** Runs what is no part of the section that its caller may be in. */
  apart<T>(run: () => T): T {
    return this.#tasks.apart(run)
  }

  async resize(name: string, capacity: number): Promise<void> {
    const { settings, desk } = this.#host
    const key = fullKey(settings.namespace, name)
    readPermits('permits', capacity, mostPermits)
    this.#checkOpen()
    await whileAlive(desk.resize(key, capacity))
  }

  /** What the section around the caller holds is not waited for. `id` is the request's, where one was made. */
  #ask(
    keys: Keys,
    options: AcquireOptions,
    orNull: boolean,
    capacity?: number,
    apart?: Apart,
  ): { promise: Promise<Lock | null>; id?: string } {
    try {
      const details = { ...readRequest(this.#host.settings, keys, options, orNull, capacity), apart }
      const task = this.#tasks.holding(details.keys ?? [details.key])
      if (task) return { promise: Promise.resolve(reenter(task, details, options.reentrant ?? false)) }
      return this.#request(details)
    } catch (error) {
      this.#host.metrics.notGranted(outcomeOf(error))
      return { promise: Promise.reject(error) }
    }
  }

  #request(details: RequestOptions): Request {
    const { line, desk, checkHealth } = this.#host
    this.#checkOpen()
    if (details.signal?.aborted) throw new AbortedError(details.key, details.signal.reason)
    checkHealth()
    line.checkRoom(details.key, details.keys)
    const request = new Request(details, this.#requestOwner, this.#tasks.context)
    line.add(request)
    desk.ask(request)
    return request
  }

  #checkOpen(): void {
    if (this.#host.isClosed()) throw new ClosedError('the client is closed')
  }
}
