import { BadOptionError } from '../../errors.ts'
import { milliseconds } from '../../options.ts'
import { mostPermits } from '../../settings.ts'

/** As commander reads them. */
export interface RunFlags {
  readonly url?: string
  readonly schema: string
  readonly ttl: string
  readonly timeout?: string
  readonly wait: boolean
  readonly shared?: true
  readonly permits?: string
  readonly grace: string
  readonly foreground?: true
  readonly dev?: true
  readonly json?: true
}

/** So many of a semaphore's. */
interface Permits {
  readonly count: number
  readonly capacity: number
}

/** One call of `fencepost run`, its options checked; durations are milliseconds. */
export interface Plan {
  readonly schema: string
  readonly key: string
  readonly command: readonly string[]
  readonly shared: boolean
  /** Undefined: a lock. */
  readonly permits: Permits | undefined
  readonly ttl: number
  /** Undefined: for ever. */
  readonly timeout: number | undefined
  readonly grace: number
  readonly foreground: boolean
  /** Added to the command's environment. */
  readonly env: NodeJS.ProcessEnv
}

/** @throws BadOptionError, before anything is started */
export function readPlan(key: string, command: readonly string[], flags: RunFlags): Plan {
  const { schema, shared = false, foreground = false } = flags
  const permits = flags.permits === undefined ? undefined : readPermits(flags.permits)
  const ttl = milliseconds('--ttl', flags.ttl, 1_000, 86_400_000)
  const wait =
    flags.timeout === undefined
      ? undefined
      : milliseconds('--timeout', flags.timeout, 0, Number.POSITIVE_INFINITY)
  const timeout = flags.wait ? wait : 0
  const grace = Math.min(milliseconds('--grace', flags.grace, 0, 86_400_000), Math.floor(ttl / 3))
  return { key, command, schema, shared, permits, ttl, timeout, grace, foreground, env: {} }
}

/** `2/5`: two of five. */
function readPermits(text: string): Permits {
  const [, count, capacity] = /^(\d{1,10})\/(\d{1,10})$/.exec(text) ?? []
  const permits = { count: Number(count), capacity: Number(capacity) }
  if (permits.count >= 1 && permits.count <= permits.capacity && permits.capacity <= mostPermits)
    return permits
  throw new BadOptionError('--permits: want how many of how many, such as 1/3')
}
