import { setTimeout as pause } from 'node:timers/promises'
import { messageOf } from '../database/failure.ts'
import { LostError } from '../errors.ts'
import type { Lock } from '../lock/lock.ts'
import { backoffOf } from './definition.ts'
import type { Ruling } from './ruling.ts'
import { attemptTick, type TickWork } from './tick.ts'

/** Which attempt at which tick. */
export interface Started {
  /** Milliseconds since 1970. */
  readonly slot: number
  readonly attempt: number
}

/** How an attempt has ended. */
export interface Outcome {
  readonly failed: boolean
  readonly error: string | null
}

/** What a runner needs of its schedule. All of it throws when the lease is lost, by a LostError. */
export interface RunnerHost {
  readonly name: string
  readonly ruling: Pick<Ruling, 'definition' | 'dueIn'>
  /** Records what is due, and starts the next tick, if `starts`; else another one is running here. */
  take(lock: Lock, starts: boolean): Promise<Started | undefined>
  end(lock: Lock, tick: Started, outcome: Outcome): Promise<void>
  /** What an attempt has failed with. */
  failed(error: unknown, tick: Started): void
}

/** As much of an error as is kept. */
const longestError = 1_000
/** Milliseconds. */
const longestTimer = 2 ** 31 - 1
const afterFailure = 1_000

/** Runs the ticks of a schedule, one after the other, under its lease. */
export class Runner {
  readonly #host: RunnerHost
  readonly #work: TickWork
  readonly #stopping: AbortSignal

  constructor(host: RunnerHost, work: TickWork, stopping: AbortSignal) {
    this.#host = host
    this.#work = work
    this.#stopping = stopping
  }

  /** Until none is due. @throws LostError when the lease is lost */
  async run(lock: Lock): Promise<void> {
    while (!this.#stopping.aborted && lock.state !== 'lost') {
      const tick = await this.#host.take(lock, true)
      if (!tick) return
      const recorder = new Recorder(this.#host, lock)
      try {
        await this.#attempt(lock, tick)
      } finally {
        await recorder.stop()
      }
    }
  }

  async #attempt(lock: Lock, tick: Started): Promise<void> {
    const { name, ruling } = this.#host
    const { timeout, attempts, backoff } = ruling.definition
    const isLast = tick.attempt >= attempts
    let ending: Promise<void> | undefined
    // Told at once where nothing more comes of it; else the tick is this process's until its work has settled.
    const late = (error: unknown) => {
      if (!isLast) return
      ending = this.#end(lock, tick, { error })
      ending.catch(() => {})
    }
    const failure = await attemptTick(lock, { name, ...tick, timeout }, this.#work, late)
    if (failure) this.#host.failed(failure.error, tick)
    await (ending ?? this.#end(lock, tick, failure))
    if (!failure || isLast || this.#stopping.aborted) return
    const signal = AbortSignal.any([this.#stopping, lock.signal])
    await pause(backoffOf(backoff, tick.attempt), undefined, { signal }).catch(() => {})
  }

  async #end(lock: Lock, tick: Started, failure: { error: unknown } | undefined): Promise<void> {
    const error = failure ? messageOf(failure.error).slice(0, longestError) : null
    await this.#host.end(lock, tick, { failed: failure !== undefined, error })
  }
}

/** Records the slots that come while a tick runs: they are skipped, or queue. */
class Recorder {
  readonly #host: RunnerHost
  readonly #lock: Lock
  #timer: NodeJS.Timeout | undefined
  #recording: Promise<void> | undefined
  #isStopped = false

  constructor(host: RunnerHost, lock: Lock) {
    this.#host = host
    this.#lock = lock
    this.#wait(0)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#timer)
    await this.#recording
  }

  #wait(least: number): void {
    const due = this.#host.ruling.dueIn
    if (this.#isStopped || due === undefined) return
    const delay = Math.max(due, least)
    this.#timer = setTimeout(
      () => {
        if (delay > longestTimer) this.#wait(0)
        else this.#recording = this.#record()
      },
      Math.min(Math.ceil(delay), longestTimer),
    )
    this.#timer.unref()
  }

  async #record(): Promise<void> {
    let least = 0
    try {
      await this.#host.take(this.#lock, false)
    } catch (error) {
      if (error instanceof LostError) return
      least = afterFailure
    }
    this.#wait(least)
  }
}
