/**
 * A schedule as one process runs it. The rows in the database are authoritative: which definition rules, which slots are
 * decided, which tick is started; this process only says which slots there are, and asks.
 *
 *   asleep --a slot is due by the server's clock--> looks --undecided, or a tick is open--> in line for the lease
 *     ^                                               |                                        |  granted
 *     |--------------- all is decided ----------------'                                        v
 *     '------------------------ nothing is due any more <--ended-- runs <--started-- takes the next tick
 *
 * Every process asks at each slot, and those that come too late stand in line: should the one that runs die, the next has
 * its lease, and finds the tick by its row.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { ScheduleState } from '../database/schedule-calls.ts'
import { ClosedError, LostError } from '../errors.ts'
import { keepAlive, letGo, whileAlive } from '../keep-alive.ts'
import type { Lock } from '../lock/lock.ts'
import type { Duration } from '../options.ts'
import { warnOfDrift, warnOfScheduleTrouble } from '../warnings.ts'
import type { Definition } from './definition.ts'
import type { ScheduleHost } from './host.ts'
import { Ruling } from './ruling.ts'
import { type Outcome, Runner, type RunnerHost, type Started } from './runner.ts'
import type { TickErrorListener, TickWork } from './tick.ts'

/** Milliseconds: so often at least a process says what it runs, and learns of another definition and of the server's clock. */
const announceEvery = 300_000
/** Slots in one call. */
const batchSize = 1_000
/** Milliseconds after a failure, doubling. */
const [leastPause, longestPause] = [100, 5_000]

/** What a process says of a schedule that it runs. */
interface Own {
  /** Namespace included. */
  readonly name: string
  /** Of the lease, without the namespace. */
  readonly key: string
  readonly definition: Definition
  readonly version: number | undefined
  readonly ttl: Duration | undefined
  readonly work: TickWork
  /** Told of each attempt that has failed. */
  readonly onError: TickErrorListener
}

export class Schedule implements AsyncDisposable {
  readonly #own: Own
  readonly #host: ScheduleHost
  readonly #node: string = randomUUID()
  readonly #stopping = new AbortController()
  readonly #ruling: Ruling
  readonly #runner: Runner
  #announcer: NodeJS.Timeout | undefined
  #announcing: Promise<void> | undefined
  #isToldOfTrouble = false
  #running: Promise<void> | undefined

  /** @internal */
  constructor(own: Own, host: ScheduleHost) {
    this.#own = own
    this.#host = host
    const ruling = new Ruling(own.name, host.clock)
    const runnerHost: RunnerHost = {
      name: own.name,
      ruling,
      take: (lock, starts) => this.#take(lock, starts),
      end: (lock, tick, outcome) => this.#end(lock, tick, outcome),
      failed: (error, tick) => this.#tellOfFailure(error, tick),
    }
    this.#ruling = ruling
    this.#runner = new Runner(runnerHost, own.work, this.#stopping.signal)
  }

  /** Namespace included. */
  get name(): string {
    return this.#own.name
  }

  /** The next slot, by the database's clock and the definition that rules; null: there is none any more. */
  get next(): Date | null {
    const slot = this.#ruling.next
    return slot === undefined ? null : new Date(slot)
  }

  /** Runs no more ticks here, and waits for the one that is running. Never throws. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await (this.#running && whileAlive(this.#running))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /** @internal @param ended called when it has been stopped. @throws what the announcement throws; nothing runs then */
  async start(ended: () => void): Promise<void> {
    await whileAlive(this.#announce())
    keepAlive()
    this.#announceAgain()
    this.#running = this.#host
      .apart(() => this.#run())
      .finally(() => {
        letGo()
        ended()
      })
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    let delay = leastPause
    while (!signal.aborted) {
      try {
        await this.#sleep()
        if (signal.aborted) break
        await this.#look()
        if (this.#ruling.isOpen || (this.#ruling.dueIn ?? 1) <= 0) await this.#underLease()
        delay = leastPause
        this.#isToldOfTrouble = false
      } catch (error) {
        if (signal.aborted || error instanceof ClosedError) break
        if (!(error instanceof LostError)) this.#tellOfTrouble(error)
        await this.#pause(delay * (0.5 + Math.random() / 2))
        delay = Math.min(delay * 2, longestPause)
      }
    }
    await this.#leave()
  }

  async #underLease(): Promise<void> {
    const { key, ttl } = this.#own
    const options = { ttl, signal: this.#stopping.signal, label: 'schedule' }
    await this.#host.underLease(key, options, lock => this.#runner.run(lock))
  }

  async #sleep(): Promise<void> {
    if (!this.#ruling.isOpen) await this.#pause(Math.min(this.#ruling.dueIn ?? announceEvery, announceEvery))
  }

  async #pause(delay: number): Promise<void> {
    await pause(Math.ceil(delay), undefined, { signal: this.#stopping.signal }).catch(() => {})
  }

  async #look(): Promise<void> {
    const state = await this.#host.ask((calls, wire, timeout) =>
      calls.look(wire, timeout, this.name, this.#node),
    )
    if (state) this.#learn(state)
    else await this.#announce()
  }

  async #announce(): Promise<void> {
    const { name, definition, version } = this.#own
    const state = await this.#host.ask((calls, wire, timeout) =>
      calls.announce(wire, timeout, {
        schedule: name,
        id: this.#node,
        definition: JSON.stringify(definition),
        version,
        owner: this.#host.owner,
      }),
    )
    this.#learn(state)
  }

  /** Whatever this process waits for meanwhile. Not all of a fleet at one moment. */
  #announceAgain(): void {
    const delay = announceEvery * (0.8 + Math.random() * 0.2)
    this.#announcer = setTimeout(() => {
      this.#announcing = this.#announce()
        .catch(() => {})
        .finally(() => {
          if (!this.#stopping.signal.aborted) this.#announceAgain()
        })
    }, delay).unref()
  }

  async #leave(): Promise<void> {
    clearTimeout(this.#announcer)
    await this.#announcing
    const leaving = this.#host.ask((calls, wire, timeout) =>
      calls.leave(wire, timeout, this.name, this.#node),
    )
    await leaving.catch(() => {})
  }

  #learn(state: ScheduleState): void {
    try {
      if (this.#ruling.learn(state) && state.drifts)
        warnOfDrift(this.name, this.#own.definition, this.#ruling.definition)
    } catch (error) {
      this.#tellOfTrouble(error)
    }
  }

  /** Records what is due, and starts the next tick, if `starts`; else another one is running here. */
  async #take(lock: Lock, starts: boolean): Promise<Started | undefined> {
    for (;;) {
      const { edition } = this.#ruling
      const due = await this.#ruling.due()
      const older = due.splice(0, Math.max(due.length - batchSize, 0))
      while (older.length > 0 && this.#ruling.edition === edition)
        await this.#record(lock, older.splice(0, batchSize), { edition, starts, followed: true })
      const started = await this.#record(lock, due, { edition, starts, followed: false })
      // Where another definition rules by now, nothing was recorded by the old one.
      if (this.#ruling.edition === edition) return started
    }
  }

  async #record(
    lock: Lock,
    slots: readonly number[],
    how: { readonly edition: number; readonly starts: boolean; readonly followed: boolean },
  ): Promise<Started | undefined> {
    const { owner } = this.#host
    const state = await this.#host.persist(lock, (calls, wire, timeout) =>
      calls.take(wire, timeout, this.#leaseOf(lock), { ...how, slots, owner }),
    )
    this.#learn(state)
    return state.started
  }

  async #end(lock: Lock, tick: Started, outcome: Outcome): Promise<void> {
    await this.#host.persist(lock, (calls, wire, timeout) =>
      calls.end(wire, timeout, this.#leaseOf(lock), tick, outcome),
    )
  }

  #leaseOf(lock: Lock): { schedule: string; token: string } {
    return { schedule: this.name, token: lock.ownToken }
  }

  #tellOfFailure(error: unknown, { slot, attempt }: Started): void {
    try {
      this.#own.onError(error, { name: this.name, slot: new Date(slot), attempt })
    } catch (listeners) {
      this.#tellOfTrouble(listeners)
    }
  }

  /** Once, until it has worked again. */
  #tellOfTrouble(error: unknown): void {
    if (this.#isToldOfTrouble) return
    this.#isToldOfTrouble = true
    warnOfScheduleTrouble(this.name, error)
  }
}
