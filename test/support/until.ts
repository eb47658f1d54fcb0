import { setTimeout as pause } from 'node:timers/promises'
import { inspect } from 'node:util'

interface UntilOptions {
  /** Milliseconds after which the state counts as never reached. @default 15000 */
  readonly within?: number
  /** Milliseconds between two looks. @default 10 */
  readonly every?: number
  /** What is waited for, for the message of the failure. */
  readonly what?: string
}

/**
 * Looks again and again until `look` answers something truthy, and answers that. A look that throws, a failed
 * `expect` for one, counts as "not yet" and becomes the cause of the failure.
 */
export async function until<T>(
  look: () => T | Promise<T>,
  options: UntilOptions = {},
): Promise<NonNullable<T>> {
  const { within = 15_000, every = 10, what = String(look) } = options
  const deadline = performance.now() + within
  for (;;) {
    let seen: T | undefined
    let cause: unknown
    try {
      seen = await look()
    } catch (error) {
      cause = error
    }
    if (seen) return seen
    if (performance.now() > deadline) {
      throw new Error(`not reached within ${within} ms: ${what}; last seen: ${inspect(seen)}`, { cause })
    }
    await pause(every)
  }
}
