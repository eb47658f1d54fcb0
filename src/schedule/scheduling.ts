import { BadOptionError } from '../errors.ts'
import { whileAlive } from '../keep-alive.ts'
import { checkOptions } from '../options.ts'
import { checkTtl } from '../settings.ts'
import { warnOfFailedTick } from '../warnings.ts'
import { readDefinition, readVersion, type ScheduleOptions } from './definition.ts'
import type { ScheduleHost } from './host.ts'
import { doOnce, type OnceOptions, type OnceWork } from './once.ts'
import { overviewOf, type ScheduleOverview } from './overview.ts'
import { Schedule } from './schedule.ts'
import type { TickWork } from './tick.ts'

/** The schedules that one client runs. */
export class Scheduling {
  readonly #host: ScheduleHost
  readonly #running = new Map<string, Schedule>()

  constructor(host: ScheduleHost) {
    this.#host = host
  }

  async schedule(
    given: string,
    cron: string,
    work: TickWork,
    options: ScheduleOptions = {},
  ): Promise<Schedule> {
    this.#host.checkOpen()
    const name = this.#host.fullKey(given)
    const key = `${given}:schedule`
    this.#host.fullKey(key)
    const { ttl, onError = warnOfFailedTick } = checkOptions(options)
    if (ttl !== undefined) checkTtl(ttl)
    const definition = readDefinition(cron, options)
    const version = readVersion(options.version)
    if (typeof work !== 'function') throw new BadOptionError('schedule: want a function to run at each tick')
    if (typeof onError !== 'function') throw new BadOptionError('onError: want a function')
    if (this.#running.has(name))
      throw new BadOptionError(`schedule: this client runs ${JSON.stringify(name)} already; stop it first`)
    const schedule = new Schedule({ name, key, definition, version, ttl, work, onError }, this.#host)
    this.#running.set(name, schedule)
    const ended = () => {
      if (this.#running.get(name) === schedule) this.#running.delete(name)
    }
    try {
      await schedule.start(ended)
    } catch (error) {
      ended()
      throw error
    }
    return schedule
  }

  once<T>(key: string, work: OnceWork<T>, options: OnceOptions): Promise<T> {
    return whileAlive(doOnce(this.#host, key, work, options))
  }

  async query(): Promise<readonly ScheduleOverview[]> {
    this.#host.checkOpen()
    const json = await whileAlive(this.#host.ask((calls, wire, timeout) => calls.query(wire, timeout)))
    return overviewOf(json)
  }

  /** No more ticks are started. Settles when those that run have ended, and the database was told. */
  async close(): Promise<void> {
    await Promise.all([...this.#running.values()].map(schedule => schedule.stop()))
  }
}
