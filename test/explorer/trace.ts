import { type Footprint, tables } from './instrument/footprint.ts'

export interface Access {
  readonly reads: readonly string[]
  readonly changes: readonly string[]
}

const data = (table: string) => `${table}.data`
const rows = (table: string) => `${table}.rows`

/**
 * The history of a schedule up to the order of steps that do not touch the same things. Two schedules with the same key
 * have led to the same state of the database and of the actors, so that only one of them need be gone on with.
 *
 * Things are, for each table, its committed rows (`data`) and its row locks (`rows`): an open transaction's writes are
 * seen by nobody else, except where row locks and unique keys meet.
 */
export class Trace {
  readonly #names: Map<string, number>
  readonly #last: number[] = []
  readonly #changed = new Map<string, number>()
  readonly #readers = new Map<string, Set<number>>()

  /** @param names shared by all traces whose keys are compared */
  constructor(names: Map<string, number>) {
    this.#names = names
  }

  get key(): string {
    return this.#last.map(step => step ?? 0).join()
  }

  /** The key that the history would have after one more step. */
  peek(actor: number, label: string, access: Access): string {
    const last = [...this.#last]
    last[actor] = this.#step(actor, label, access)
    return last.map(step => step ?? 0).join()
  }

  add(actor: number, label: string, access: Access): void {
    const step = this.#step(actor, label, access)
    this.#last[actor] = step
    for (const thing of access.changes) {
      this.#changed.set(thing, step)
      this.#readers.delete(thing)
    }
    for (const thing of access.reads) {
      if (access.changes.includes(thing)) continue
      const readers = this.#readers.get(thing) ?? new Set()
      this.#readers.set(thing, readers.add(step))
    }
  }

  // A step is what it does, after which step of its actor, and after which steps of others that touch the same.
  #step(actor: number, label: string, { reads, changes }: Access): number {
    const parts: (string | number)[] = [actor, label, this.#last[actor] ?? 0]
    for (const thing of [...reads].sort()) parts.push(thing, this.#changed.get(thing) ?? 0)
    for (const thing of [...changes].sort()) {
      const readers = [...(this.#readers.get(thing) ?? [])].sort((a, b) => a - b)
      parts.push(`${thing}!`, this.#changed.get(thing) ?? 0, ...readers)
    }
    const name = parts.join()
    const known = this.#names.get(name) ?? this.#names.size + 1
    this.#names.set(name, known)
    return known
  }
}

/** What a piece of a function touches while its transaction is open. */
export function whileOpen(part: Footprint): Access {
  const changes = [...part.locks].map(rows)
  const reads = [...part.sees].map(data)
  if (part.draws) changes.push('fencing')
  if (part.tickets) changes.push('tickets')
  if (part.counts && !part.draws) reads.push('fencing')
  if (part.clock) reads.push('clock')
  reads.push(...[...part.shares].map(rows).filter(thing => !changes.includes(thing)))
  return { reads, changes }
}

/** What the end of a transaction touches that has touched all this. */
export function atEnd(whole: Footprint): Access {
  const changes = [...[...whole.locks].map(rows), ...[...whole.writes].map(data)]
  if (whole.tickets) changes.push('tickets')
  const reads = [...whole.shares].map(rows).filter(thing => !changes.includes(thing))
  return { reads, changes }
}

/** What a call touches when it is sent; with a snapshot for the whole transaction, all that is committed. */
export const atStart: Access = { reads: ['clock'], changes: [] }
export const withSnapshot: Access = { reads: ['clock', ...tables.map(data)], changes: [] }
export const clockMoves: Access = { reads: [], changes: ['clock'] }
