import { BadOptionError } from '../errors.ts'
import { checkOptions, type Duration, milliseconds } from '../options.ts'
import type { TickErrorListener } from './tick.ts'
import { Timetable } from './timetable.ts'

export interface ScheduleOptions {
  /** By whose clocks the expression is read: a name of the IANA database. @default 'UTC' */
  readonly timezone?: string | undefined
  /**
   * What becomes of ticks whose time came while nobody could run them, recorded as missed: `skip`: no more than that; `once`:
   * the last one runs late; `all`: each of them does, in order, up to `missedLimit`. @default 'skip'
   */
  readonly missed?: 'skip' | 'once' | 'all' | undefined
  /** How many missed ticks run at most, and how many wait at most: the latest. @default 24 */
  readonly missedLimit?: number | undefined
  /** How late a tick may start before it counts as missed. @default '1m' */
  readonly startWithin?: Duration | undefined
  /** What becomes of a tick whose time comes while another one is not over. @default 'skip' */
  readonly overlap?: 'skip' | 'queue' | undefined
  /** How long one attempt may take: then its signal is aborted, and it has failed. @default for ever */
  readonly timeout?: Duration | undefined
  /** Up to so much later than its time each tick starts, on whichever node. @default 0 */
  readonly jitter?: Duration | undefined
  /** How often a tick is started at most, where it fails or its process dies, and how long after a failure. @default once */
  readonly retry?: RetryOptions | undefined
  /** Of the definition: where nodes differ the higher one rules, and one that has none is the lowest. @default none */
  readonly version?: number | undefined
  /** How long the rows of ticks are kept. @default '7d' */
  readonly retention?: Duration | undefined
  /** How long the lease outlives a process that dies. @default the client's */
  readonly ttl?: Duration | undefined
  /** Told of each attempt that has failed here, and what with. @default a process warning */
  readonly onError?: TickErrorListener | undefined
}

export interface RetryOptions {
  /** The first one counts. */
  readonly attempts: number
  /** Before the second attempt; it doubles with each one after that, up to an hour. @default '1s' */
  readonly backoff?: Duration | undefined
}

/** What all nodes of a schedule must agree on, as it is kept in the database. Durations are milliseconds. */
export interface Definition {
  readonly cron: string
  readonly timezone: string
  readonly missed: 'skip' | 'once' | 'all'
  readonly missedLimit: number
  readonly startWithin: number
  readonly overlap: 'skip' | 'queue'
  /** 0: for ever. */
  readonly timeout: number
  readonly jitter: number
  readonly attempts: number
  readonly backoff: number
  readonly retention: number
}

const day = 86_400_000
const longest = 366 * day
/** What a timer can wait for. */
const longestTimeout = 2 ** 31 - 1
const mostMissed = 1_000

/** @throws BadOptionError */
export function readDefinition(cron: string, options: ScheduleOptions): Definition {
  const { timezone = 'UTC', missed = 'skip', missedLimit = 24, overlap = 'skip' } = checkOptions(options)
  if (typeof timezone !== 'string') throw new BadOptionError('timezone: want text')
  new Timetable(cron, timezone)
  if (!['skip', 'once', 'all'].includes(missed))
    throw new BadOptionError("missed: want 'skip', 'once' or 'all'")
  if (overlap !== 'skip' && overlap !== 'queue') throw new BadOptionError("overlap: want 'skip' or 'queue'")
  const { attempts = 1, backoff = '1s' } = readRetry(options.retry)
  return {
    cron: cron.trim().replace(/\s+/g, ' '),
    timezone,
    missed,
    missedLimit: whole('missedLimit', missedLimit, mostMissed),
    startWithin: duration('startWithin', options.startWithin ?? '1m', 1_000),
    overlap,
    timeout: options.timeout === undefined ? 0 : duration('timeout', options.timeout, 1, longestTimeout),
    jitter: duration('jitter', options.jitter ?? 0, 0),
    attempts: whole('retry.attempts', attempts, 1_000),
    backoff: duration('retry.backoff', backoff, 0),
    retention: duration('retention', options.retention ?? '7d', 60_000),
  }
}

function readRetry(retry: RetryOptions | undefined): Partial<RetryOptions> {
  if (retry === undefined) return {}
  if (typeof retry === 'object' && retry !== null) return retry
  throw new BadOptionError('retry: want { attempts, backoff }')
}

const defaults = {
  missed: 'skip',
  missedLimit: 24,
  startWithin: 60_000,
  overlap: 'skip',
  timeout: 0,
  jitter: 0,
  attempts: 1,
  backoff: 1_000,
  retention: 7 * day,
} satisfies Partial<Definition>

/** As it is kept in the database; by a program in another language maybe, which need not spell out the defaults. */
export function definitionOf(kept: object): Definition {
  return { ...defaults, ...(kept as Pick<Definition, 'cron' | 'timezone'>) }
}

/** @throws BadOptionError */
export function readVersion(version: number | undefined): number | undefined {
  return version === undefined ? undefined : whole('version', version, 2 ** 31 - 1)
}

function whole(name: string, value: unknown, most: number): number {
  if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= most) return value as number
  throw new BadOptionError(`${name}: want a whole number from 1 to ${most}`)
}

/** Whole milliseconds: they are compared as text in the database. */
function duration(name: string, value: Duration, least: number, most = longest): number {
  return Math.round(milliseconds(name, value, least, most))
}

/** How much later than its slot a tick starts: the same number on every node, anywhere below `most`. */
export function jitterOf(name: string, slot: number, most: number): number {
  if (most === 0) return 0
  // FNV-1a, which spreads what differs in a digit.
  let hash = 2_166_136_261
  for (const byte of Buffer.from(`${name} ${slot}`)) hash = Math.imul(hash ^ byte, 16_777_619)
  return Math.floor(((hash >>> 0) / 2 ** 32) * most)
}

/** Milliseconds before the next attempt, with jitter. */
export function backoffOf(backoff: number, attempt: number): number {
  return Math.min(backoff * 2 ** (attempt - 1), 3_600_000) * (0.75 + Math.random() / 4)
}
