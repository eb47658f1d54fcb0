import { type Moment, trustAt } from './clock.ts'

/** From when on something is trusted, and for how many milliseconds. */
export interface Trust {
  readonly since: Moment
  readonly span: number
}

/** What shortens the trust in a session: it is as long as that, or as the last renewal says, whichever ends first. */
export interface TrustBound {
  /** Undefined: nothing shortens it just now. */
  readonly trust: Trust | undefined
  /** Whether an answer is overdue. */
  readonly isFailing: boolean
  /** Has it extended now. Resolves when that is answered, or was in vain. */
  refresh(): Promise<void>
  /** The session is over. */
  stop(): void
}

type Worth = ReturnType<typeof trustAt>

const worths: readonly Worth[] = ['trusted', 'suspended', 'over']

/** What several are worth together: as much as the one that is worth least. */
export function worthOf(trusts: readonly Trust[]): Worth {
  const least = Math.max(...trusts.map(({ since, span }) => worths.indexOf(trustAt(since, span))))
  return worths[least] as Worth
}

/** When the first of them ends, by the monotonic clock. */
export function endOf(trusts: readonly Trust[]): number {
  return Math.min(...trusts.map(({ since, span }) => since.monotonic + span))
}
