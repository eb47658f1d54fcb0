import { checkOptions, checkReason } from '../options.ts'
import type { SightHost } from './host.ts'

export interface RaiseBaseOptions {
  /** Why. Kept in the table `events`, with who and when: up to 1,000 bytes. */
  readonly reason: string
}

/**
 * From where tokens are counted; null in a life of the server in which nobody has taken a lock yet.
 *
 * @throws UnreachableError, NotMigratedError
 */
export async function tokenBase(host: SightHost): Promise<bigint | null> {
  const { base } = await host.ask(({ wire, timeout }) => host.calls.incarnation(wire, timeout))
  return base === null ? null : BigInt(base)
}

/**
 * Raises it by at least 2^32, so that every token from now on is above all that were drawn before.
 *
 * @throws BadOptionError, NotPermittedError, UnreachableError: it may have been raised then, and again does no harm
 */
export async function raiseBase(host: SightHost, options: RaiseBaseOptions): Promise<bigint> {
  const reason = checkReason(checkOptions(options).reason)
  const raise = { reason, by: host.owner }
  return BigInt(
    await host.operate(({ wire, timeout }) => host.calls.raiseBase(wire, timeout, raise, host.witness())),
  )
}
