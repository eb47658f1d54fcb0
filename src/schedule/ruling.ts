import type { ScheduleState } from '../database/schedule-calls.ts'
import { type Definition, definitionOf, jitterOf } from './definition.ts'
import type { ServerClock } from './server-clock.ts'
import { Timetable } from './timetable.ts'

/** Slots that are worked out in one turn of the event loop. */
const turn = 1_000

/** What a process knows of a schedule: the definition that rules, and how far its slots are decided, as of the last answer. */
export class Ruling {
  readonly #name: string
  readonly #clock: ServerClock
  #state!: ScheduleState
  #definition!: Definition
  #timetable: Timetable | undefined

  constructor(name: string, clock: ServerClock) {
    this.#name = name
    this.#clock = clock
  }

  /** Whether another definition rules by now. @throws BadOptionError where this process cannot read it: another node can */
  learn(state: ScheduleState): boolean {
    this.#clock.learn(state.serverTime)
    const isSame = this.#state?.definition === state.definition
    this.#state = state
    if (isSame) return false
    this.#definition = definitionOf(JSON.parse(state.definition))
    this.#timetable = undefined
    this.#timetable = new Timetable(this.#definition.cron, this.#definition.timezone)
    return true
  }

  get definition(): Definition {
    return this.#definition
  }

  get edition(): number {
    return this.#state.edition
  }

  /** A tick is due or started. */
  get isOpen(): boolean {
    return this.#state.isOpen
  }

  /** The first slot that is not over by the server's clock. */
  get next(): number | undefined {
    return this.#timetable?.next(this.#clock.now())
  }

  /** Milliseconds until the first undecided slot is due, by the server's clock; undefined: there is none any more. */
  get dueIn(): number | undefined {
    const slot = this.#timetable?.next(this.#state.upto)
    return slot === undefined ? undefined : this.#dueAt(slot) - this.#clock.now()
  }

  /** Slots that are due and undecided; those that the table would not keep are not even named. */
  async due(): Promise<number[]> {
    const now = this.#clock.now()
    const slots: number[] = []
    let slot = this.#timetable?.next(Math.max(this.#state.upto, now - this.#definition.retention))
    while (slot !== undefined && this.#dueAt(slot) <= now) {
      slots.push(slot)
      if (slots.length % turn === 0) await new Promise(resolve => setImmediate(resolve))
      slot = this.#timetable?.next(slot)
    }
    return slots
  }

  #dueAt(slot: number): number {
    return slot + jitterOf(this.#name, slot, this.#definition.jitter)
  }
}
