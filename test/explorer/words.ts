import type { Place } from './backend.ts'
import { type Call, nameOf, type Reply } from './calls.ts'
import type { Instrumented } from './instrument/instrument.ts'
import type { Program } from './program.ts'

/** A schedule as a person would tell it: a line for each turn, where the actor stops at its end. */
export class Words {
  readonly lines: string[] = []
  readonly #program: Program
  readonly #protocol: Instrumented
  /** Who has the turn, while it runs from gate to gate. */
  #turn: number | undefined

  constructor(program: Program, protocol: Instrumented) {
    this.#program = program
    this.#protocol = protocol
  }

  comes(actor: number, call: Call | undefined, place: Place): void {
    const line = `${this.#name(actor)} (${call?.words}) ${this.#where(place)}`
    if (this.#turn === actor) this.lines.pop()
    this.lines.push(line)
    this.#turn = actor
  }

  ends(actor: number, { error, answers }: Reply): void {
    const told = answers.map(({ request, outcome, token, key }) =>
      [key, request && nameOf(request), outcome, token ? `under ${token}` : ''].filter(Boolean).join(' '),
    )
    this.says(
      actor,
      error === undefined ? ['commits', told.join(', ')].filter(Boolean).join(': ') : `is refused (${error})`,
    )
  }

  says(actor: number | undefined, what: string): void {
    this.lines.push(actor === undefined ? what : `${this.#name(actor)} ${what}`)
    this.#turn = undefined
  }

  #where(place: Place): string {
    if (place.at === 'gate') return `stops at ${this.#protocol.points.get(place.point)?.name}`
    if (place.at === 'blocked') return `waits for ${place.by.map(other => this.#name(other)).join(' and ')}`
    return place.at === 'returned' && place.reply.error ? `fails (${place.reply.error})` : 'returns'
  }

  #name(actor: number): string {
    return this.#program.actors[actor]?.name ?? 'the clock'
  }
}
