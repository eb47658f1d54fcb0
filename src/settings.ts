import { hostname } from 'node:os'
import { checkSchema, defaultSchema } from './database/migrations/schema-name.ts'
import type { PoolLike, Queryable } from './database/ports.ts'
import type { Listen } from './database/roads.ts'
import { checkDatabase } from './database/target.ts'
import { BadKeyError, BadOptionError } from './errors.ts'
import type { RequestOptions } from './lock/request.ts'
import {
  checkLabel,
  checkMetadata,
  checkNamespace,
  checkOptions,
  type Duration,
  fullKey,
  milliseconds,
  wholeNumber,
} from './options.ts'

export interface FencepostOptions {
  /**
   * A `pg.Pool` (its options are read; connections of our own are opened by them, and none of its is taken), a
   * connection string, or anything with `query(text, values)`.
   */
  readonly pool?: PoolLike | Queryable | string | undefined
  /** The same as `pool` with a string. */
  readonly connectionString?: string | undefined
  /** @default 'fencepost' */
  readonly schema?: string | undefined
  /** How long a lock outlives its holder: 1 s up to the schema's `max_ttl`. @default '30s' */
  readonly ttl?: Duration | undefined
  /** A prefix of every key of this client, followed by a colon. @default none */
  readonly namespace?: string | undefined
  /** Who this is, for people. @default the host's name and the process id */
  readonly owner?: string | undefined
  /**
   * Whether to be woken by notifications. `false`: poll. `{ connectionString }`: listen there, where the pool goes
   * through a pooler. @default true, with a probe that falls back to polling
   */
  readonly listen?: Listen | undefined
  /** The longest time between two looks of somebody who waits. @default '1s' */
  readonly poll?: Duration | undefined
  /** Acquires that may wait at once in this client. @default 10,000 */
  readonly maxPending?: number | undefined
  /** Acquires of one key that may wait at once in this client. @default unbounded */
  readonly maxPendingPerKey?: number | undefined
  /** Asked before each renewal: a process that says no for a whole ttl gives up all that it holds. */
  readonly healthy?: (() => boolean) | undefined
  /**
   * Kills this process, from a thread of its own, when a lock is lost and the event loop is too busy to notice.
   * @default false
   */
  readonly watchdog?: boolean | undefined
}

export interface AcquireOptions {
  /** @default the client's */
  readonly ttl?: Duration | undefined
  /** How long to wait; 0 is one attempt. @default for ever */
  readonly timeout?: Duration | undefined
  /** Gives the acquire up. After the grant it has no effect. */
  readonly signal?: AbortSignal | undefined
  /** Up to 200 bytes that say what for. */
  readonly label?: string | undefined
  /** Up to 1,000 bytes of JSON. */
  readonly metadata?: unknown
  /** `shared`: beside other readers, never beside an exclusive lock. @default 'exclusive' */
  readonly mode?: 'exclusive' | 'shared' | undefined
  /**
   * What happens where this very task holds the key already, by a section around: an error, or with `true` the same
   * lock once more, which is released with the last. @default false
   */
  readonly reentrant?: boolean | undefined
  /**
   * How long the key rests if its holder is lost, not released: for resources that cannot check a token. Of exclusive
   * locks. @default 0
   */
  readonly lockDelay?: Duration | undefined
}

/** As of a lock, but for its kind. */
export interface PermitOptions extends Omit<AcquireOptions, 'mode' | 'reentrant' | 'lockDelay'> {
  /** How many. @default 1 */
  readonly permits?: number | undefined
}

export type TryAcquireOptions = Omit<AcquireOptions, 'timeout'>

export interface CloseOptions {
  /** How long what runs is awaited: sections of `withLock` and `withPermits`, `lock.transaction`. @default '5s' */
  readonly timeout?: Duration | undefined
}

/** A client's options, checked, with the defaults filled in. */
export interface Settings {
  readonly database: PoolLike | Queryable | string
  readonly schema: string
  readonly ttl: number
  readonly namespace: string | undefined
  readonly owner: string
  readonly listen: Listen
  readonly poll: number
  readonly maxPending: number
  readonly maxPendingPerKey: number
  readonly healthy: () => boolean
  readonly watchdog: boolean
}

const unbounded = Number.POSITIVE_INFINITY

/** @throws BadOptionError */
export function readSettings(options: FencepostOptions): Settings {
  return {
    database: checkDatabase(checkOptions(options).pool ?? options.connectionString),
    schema: checkSchema(options.schema ?? defaultSchema),
    ttl: checkTtl(options.ttl ?? '30s'),
    namespace: checkNamespace(options.namespace),
    owner: checkLabel('owner', options.owner) ?? `${hostname()}:${process.pid}`,
    listen: checkListen(options.listen ?? true),
    poll: milliseconds('poll', options.poll ?? '1s', 20, 60_000),
    maxPending: wholeNumber('maxPending', options.maxPending ?? 10_000),
    maxPendingPerKey: wholeNumber('maxPendingPerKey', options.maxPendingPerKey ?? unbounded),
    healthy: checkHealthy(options.healthy),
    watchdog: checkFlag('watchdog', options.watchdog ?? false),
  }
}

/** What one acquire asks for. @throws BadKeyError, BadOptionError */
export function readRequest(
  settings: Settings,
  name: string | readonly string[],
  options: AcquireOptions,
  orNull: boolean,
  capacity?: number,
): RequestOptions {
  const names = Array.isArray(name) ? readKeys(settings, name) : undefined
  const given = checkOptions(options).timeout
  const wait = orNull ? 0 : given
  const timeout = wait === undefined ? undefined : milliseconds('timeout', wait, 0, unbounded)
  return {
    key: names ? names.join(', ') : fullKey(settings.namespace, name),
    ...readTerms(options, names, capacity),
    ttl: options.ttl === undefined ? settings.ttl : checkTtl(options.ttl),
    label: checkLabel('label', options.label),
    metadata: checkMetadata(options.metadata),
    signal: checkSignal(options.signal),
    waits: timeout !== 0,
    orNull,
    timeout,
  }
}

const mostKeys = 100

/** Several keys: in order, each once. One alone is a key as any. */
function readKeys(settings: Settings, names: readonly string[]): readonly string[] {
  const keys = [...new Set(names.map(name => fullKey(settings.namespace, name)))].sort()
  if (keys.length > 0 && keys.length <= mostKeys) return keys
  throw new BadKeyError(`several keys: want 1 to ${mostKeys}; got ${keys.length}`)
}

function readTerms(
  options: AcquireOptions,
  names: readonly string[] | undefined,
  capacity: number | undefined,
): Pick<RequestOptions, 'mode' | 'keys' | 'permits' | 'capacity' | 'lockDelay'> {
  const { mode: asked = 'exclusive', reentrant, permits = 1 } = options as Record<string, unknown>
  if (capacity !== undefined && options.mode !== undefined)
    throw new BadOptionError('mode: permits have none')
  if (asked !== 'exclusive' && asked !== 'shared')
    throw new BadOptionError("mode: want 'exclusive' or 'shared'")
  if (capacity === undefined && 'permits' in options && options.permits !== undefined)
    throw new BadOptionError('permits: a lock has none; want `semaphore(name, { permits })`')
  const mode = capacity === undefined ? asked : 'permits'
  if (reentrant !== undefined) checkFlag('reentrant', reentrant)
  const delay =
    options.lockDelay === undefined ? 0 : milliseconds('lockDelay', options.lockDelay, 0, 86_400_000)
  if (mode !== 'exclusive' && delay > 0)
    throw new BadOptionError(
      'lockDelay: only an exclusive lock rests, for nobody else can have been beside it',
    )
  const keys = names && names.length > 1 ? names : undefined
  if (mode === 'shared' && keys)
    throw new BadOptionError('mode: several keys are taken exclusively, all of them')
  return {
    mode,
    keys,
    permits: capacity && readPermits('permits', permits, capacity),
    capacity,
    lockDelay: mode === 'exclusive' && options.lockDelay !== undefined ? delay : undefined,
  }
}

/** As many as an SQL int holds. */
export const mostPermits: number = 2 ** 31 - 1

/** @throws BadOptionError */
export function readPermits(name: 'permits', value: unknown, most: number): number {
  if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= most) return value as number
  throw new BadOptionError(`${name}: want a whole number from 1 to ${most}`)
}

/** @throws BadOptionError */
export function readCloseTimeout(options: CloseOptions): number {
  return milliseconds('timeout', checkOptions(options).timeout ?? '5s', 0, unbounded)
}

/** @throws BadOptionError */
export function checkTtl(ttl: Duration): number {
  return milliseconds('ttl', ttl, 1_000, 86_400_000)
}

/** @throws BadOptionError */
export function checkSignal(signal: AbortSignal | undefined): AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return signal
  throw new BadOptionError('signal: want an AbortSignal')
}

function checkHealthy(healthy: (() => boolean) | undefined): () => boolean {
  if (healthy === undefined) return () => true
  if (typeof healthy === 'function') return healthy
  throw new BadOptionError('healthy: want a function that answers true or false')
}

function checkFlag(name: 'reentrant' | 'watchdog', value: unknown): boolean {
  if (typeof value === 'boolean') return value
  throw new BadOptionError(`${name}: want true or false`)
}

function checkListen(listen: Listen): Listen {
  if (typeof listen === 'boolean') return listen
  if (typeof listen?.connectionString === 'string' && listen.connectionString !== '') return listen
  throw new BadOptionError('listen: want true, false or { connectionString }')
}
