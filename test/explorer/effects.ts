import { type Footprint, nothing, union, without } from './instrument/footprint.ts'
import type { Instrumented } from './instrument/instrument.ts'
import { type Program, quietTables } from './program.ts'
import { mayBeRefused, type Role } from './role.ts'
import { type Access, atEnd, atStart, whileOpen, withSnapshot } from './trace.ts'

/** What the moves of a program's actors touch, known before they are made. */
export class Effects {
  readonly #program: Program
  readonly #protocol: Instrumented
  readonly #quiet: readonly string[]

  constructor(program: Program, protocol: Instrumented) {
    this.#program = program
    this.#protocol = protocol
    this.#quiet = quietTables(program)
  }

  /** All that an actor touches which goes on from a gate, for the end of its transaction. */
  at(point: number): Footprint {
    return this.#protocol.points.get(point)?.footprint ?? nothing
  }

  /** All that a call can touch. */
  whole({ call }: Role): Footprint {
    return (call && this.#protocol.footprints.get(call.function)) ?? nothing
  }

  /** A call is sent and runs to its first gate, before which it touches nothing that counts. */
  beginning({ call }: Role): Access {
    return call?.isolation === 'repeatable read' ? withSnapshot : atStart
  }

  /** Without gates it is one step from its beginning to its return. */
  atOnce(role: Role): Access {
    return whileOpen(without(this.whole(role), this.#quiet))
  }

  /** From a gate to the next. */
  passing(point: number, role: Role): Access {
    const { name = '', footprint = nothing, oneKey = nothing } = this.#protocol.points.get(point) ?? {}
    const reach = without(this.#program.key === undefined ? footprint : oneKey, this.#quiet)
    const isAsked = role.call?.function === 'assert_held' || /^(assert_held|pin): /.test(name)
    if (!mayBeRefused(role.call) || !isAsked) return whileOpen(reach)
    // A refusal ends the transaction then and there.
    const now = whileOpen(reach)
    const end = atEnd(union(role.touched, footprint))
    const changes = [...new Set([...now.changes, ...end.changes])]
    return { reads: [...now.reads, ...end.reads].filter(thing => !changes.includes(thing)), changes }
  }
}
