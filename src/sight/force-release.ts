import type { Answer } from '../database/answers.ts'
import { BadOptionError } from '../errors.ts'
import { checkOptions, checkReason } from '../options.ts'
import type { SightHost } from './host.ts'

export interface ForceReleaseOptions {
  /** Why. Kept in the table `events`, with who and when: up to 1,000 bytes. */
  readonly reason: string
  /** Only while it is held under this token. @default whoever holds it, all of them */
  readonly token?: bigint | undefined
  /**
   * Hands over at once, and does not wait until the holder knows. It still believes that it holds until its next
   * heartbeat, up to a third of its ttl later, or for a whole ttl if it is cut off: for so long two work under one key,
   * and only a guard or a fence keeps the older one out. @default false
   */
  readonly now?: boolean | undefined
}

export interface ForcedRelease {
  /**
   * - `forced`: marked. No renewal extends the grant; it moves on when its holder gives it back, or after `movesWithin`;
   * - `released`: it has moved on;
   * - `pinned`: it moves on when a transaction that is open under it ends;
   * - `absent`: nobody holds the key, or not under that token.
   */
  readonly outcome: 'forced' | 'released' | 'pinned' | 'absent'
  /** Of the grant that was taken, of several of the one that moves on last; null when there was none. */
  readonly token: bigint | null
  /** Milliseconds, with `forced`; else null. */
  readonly movesWithin: number | null
}

/**
 * Takes a key from its holder.
 *
 * @throws BadKeyError, BadOptionError, NotPermittedError, UnreachableError: whether it happened is unknown then, and a
 * repetition that names the token does no harm
 */
export async function forceRelease(
  host: SightHost,
  key: string,
  options: ForceReleaseOptions,
): Promise<ForcedRelease> {
  const { token, now = false } = checkOptions(options)
  if (token !== undefined && typeof token !== 'bigint') throw new BadOptionError('token: want a bigint')
  if (typeof now !== 'boolean') throw new BadOptionError('now: want true or false')
  const force = {
    key: host.fullKey(key),
    token: token?.toString(),
    reason: checkReason(options.reason),
    now,
    by: host.owner,
  }
  for (;;) {
    const answers = await host.operate(({ wire, timeout }) =>
      host.calls.forceRelease(wire, timeout, force, host.witness()),
    )
    for (const { outcome, channel, key } of answers) if (outcome === 'handed') host.hint(channel, key)
    const answer = lastToMove(answers.filter(({ outcome }) => outcome !== 'handed'))
    const outcome = answer?.outcome
    // It moved on at that moment: whoever holds it now is meant, since no token was named.
    if (outcome === 'again') continue
    return {
      outcome: outcome as ForcedRelease['outcome'],
      token: outcome === 'absent' || answer?.token == null ? null : BigInt(answer.token),
      movesWithin: answer?.expiresIn ?? null,
    }
  }
}

/** What a guard pins is not known to end at all. */
function lastToMove(answers: readonly Answer[]): Answer | undefined {
  const wait = ({ outcome, expiresIn }: Answer) =>
    outcome === 'pinned' ? Number.POSITIVE_INFINITY : (expiresIn ?? -1)
  return answers.reduce<Answer | undefined>(
    (last, answer) => (last === undefined || wait(answer) > wait(last) ? answer : last),
    undefined,
  )
}
