import type { Peer } from '../../database/presence-calls.ts'

/** What is remembered of one session that shows presence. Moments are by the monotonic clock. */
interface Seen {
  generation: string
  grace: number
  /** When the first answer came that told of it. */
  readonly since: number
  /** When the last one did. */
  listed: number
  /** When the first answer came that found it gone, with none since that did not, and no gap. */
  absentSince: number | undefined
  /** When the answer came that showed that its connection was lost, whether it is back or not. */
  vanished: number | undefined
  /** It vanished along with most of the others: that is a server, or a proxy, and no death. */
  isOneOfMany: boolean
}

/**
 * Who is gone, and since when, by what one process has been answered about it. Absence is counted from the answer to the
 * first question that found it to the sending of the last; a pause of more than a quarter of the grace between two answers
 * is a gap, after which it is counted anew: it was we who stood still, or the server.
 */
export class Absences {
  readonly #seen = new Map<string, Seen>()

  /** Takes an answer in. */
  note(peers: readonly Peer[], answered: number): void {
    for (const peer of peers) this.#note(peer, answered)
    for (const [id, { listed, grace }] of this.#seen) if (answered - listed > 2 * grace) this.#seen.delete(id)
    for (const seen of this.#seen.values()) seen.isOneOfMany ||= this.#isOneOfMany(seen)
  }

  /** From when on a question that finds it gone may be its end; undefined: not as it is. */
  dueAt({ id }: Peer): number | undefined {
    const seen = this.#seen.get(id)
    if (seen?.absentSince === undefined || seen.isOneOfMany) return undefined
    return seen.absentSince + seen.grace
  }

  /** Another connection may have another server at its end. */
  forget(): void {
    this.#seen.clear()
  }

  #note({ id, generation, grace, isAbsent }: Peer, answered: number): void {
    const known = this.#seen.get(id)
    const seen: Seen = known ?? {
      generation,
      grace,
      since: answered,
      listed: answered,
      absentSince: undefined,
      vanished: undefined,
      isOneOfMany: false,
    }
    if (!known) this.#seen.set(id, seen)
    const isSame = seen.generation === generation
    const isGap = answered - seen.listed > grace / 4
    const wasAbsent = seen.absentSince !== undefined
    // Shown anew since: it was gone in between.
    if ((isAbsent && !(isSame && wasAbsent)) || (!isSame && !wasAbsent)) {
      seen.vanished = answered
      seen.isOneOfMany = false
    }
    if (!isAbsent) seen.absentSince = undefined
    else if (!isSame || !wasAbsent || isGap) seen.absentSince = answered
    seen.generation = generation
    seen.grace = grace
    seen.listed = answered
  }

  /** At least two, and more than half of all who were there, within a grace. */
  #isOneOfMany({ vanished: at, grace }: Seen): boolean {
    if (at === undefined) return false
    const isNear = (moment: number | undefined) => moment !== undefined && Math.abs(moment - at) <= grace
    const all = [...this.#seen.values()].filter(({ since, listed }) => since <= at && listed >= at - grace)
    const gone = all.filter(({ vanished }) => isNear(vanished))
    return gone.length >= 2 && gone.length > all.length / 2
  }
}
