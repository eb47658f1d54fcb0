import { milliseconds } from '../../options.ts'

/** As commander reads them. */
export interface RunFlags {
  readonly url?: string
  readonly schema: string
  readonly ttl: string
  readonly timeout?: string
  readonly wait: boolean
  readonly grace: string
  readonly foreground?: true
  readonly dev?: true
  readonly json?: true
}

/** One call of `fencepost run`, its options checked; durations are milliseconds. */
export interface Plan {
  readonly schema: string
  readonly key: string
  readonly command: readonly string[]
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
  const { schema, foreground = false } = flags
  const ttl = milliseconds('--ttl', flags.ttl, 1_000, 86_400_000)
  const wait =
    flags.timeout === undefined
      ? undefined
      : milliseconds('--timeout', flags.timeout, 0, Number.POSITIVE_INFINITY)
  const timeout = flags.wait ? wait : 0
  const grace = Math.min(milliseconds('--grace', flags.grace, 0, 86_400_000), Math.floor(ttl / 3))
  return { key, command, schema, ttl, timeout, grace, foreground, env: {} }
}
