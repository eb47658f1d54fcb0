/**
 * Done once per key, whoever calls and however often. The row is the truth; the lease is there so that one works and the
 * others wait.
 *
 *   not done --the first in line works--> recorded, under its lease --within--> deleted: not done
 *      ^------ it throws, or its lease is lost --'
 */
import { BadOptionError, BadResultError, LostError } from '../errors.ts'
import type { Lock } from '../lock/lock.ts'
import { checkOptions, type Duration, milliseconds } from '../options.ts'
import type { ScheduleHost } from './host.ts'
import { whyNoJson } from './json.ts'

export interface OnceOptions {
  /** How long the result is kept, from when it is recorded: so long nobody works for this key again. */
  readonly within: Duration
  /** How long the lease outlives a process that dies. @default the client's */
  readonly ttl?: Duration | undefined
  /** How long to wait for somebody else who works. @default for ever */
  readonly timeout?: Duration | undefined
  /** Gives the waiting up. While the work runs it has no effect. */
  readonly signal?: AbortSignal | undefined
}

/** What the work is given: of the lease under which it runs. */
export interface OnceContext {
  /** Namespace included. */
  readonly key: string
  /** Aborted when the lease is lost, or the client closes. */
  readonly signal: AbortSignal
  readonly token: bigint
  /** As `lock.transaction`. */
  readonly transaction: Lock['transaction']
}

export type OnceWork<T> = (context: OnceContext) => Promise<T> | T

const longest = 3_660 * 86_400_000
const longestResult = 1_000_000

export async function doOnce<T>(
  host: ScheduleHost,
  given: string,
  work: OnceWork<T>,
  options: OnceOptions,
): Promise<T> {
  const { ttl, timeout, signal, within: keep } = checkOptions(options)
  host.checkOpen()
  const key = host.fullKey(given)
  const lease = `${given}:once`
  host.fullKey(lease)
  if (keep === undefined) throw new BadOptionError('within: want how long the result is kept, such as "1d"')
  const within = Math.round(milliseconds('within', keep, 1_000, longest))
  if (typeof work !== 'function') throw new BadOptionError('once: want a function that does it')
  const kept = await host.ask((calls, wire, patience) => calls.lookOnce(wire, patience, key))
  if (kept !== undefined) return parse<T>(kept)
  // Assigned in the section, which its type does not see.
  let recorded = undefined as { readonly json: string | null } | undefined
  try {
    await host.underLease(lease, { ttl, timeout, signal, label: 'once' }, async lock => {
      const found = await host.persist(lock, (calls, wire, patience) => calls.lookOnce(wire, patience, key))
      if (found !== undefined) {
        recorded = { json: found }
        return
      }
      const json = jsonOf(key, await work(contextOf(key, lock)))
      await host.persist(lock, (calls, wire, patience) =>
        calls.recordOnce(wire, patience, key, lock.ownToken, json, within),
      )
      recorded = { json }
    })
  } catch (error) {
    // What is recorded was recorded under the lease, and counts, whatever became of that afterwards.
    if (!recorded || !(error instanceof LostError)) throw error
  }
  return parse<T>(recorded?.json ?? null)
}

function contextOf(key: string, lock: Lock): OnceContext {
  return {
    key,
    signal: lock.signal,
    token: lock.token,
    transaction: (work, options) => lock.transaction(work, options),
  }
}

/** Null: nothing was returned. */
function jsonOf(key: string, result: unknown): string | null {
  if (result === undefined) return null
  const why = whyNoJson(result)
  if (why !== undefined) throw new BadResultError(key, why)
  const json = JSON.stringify(result)
  if (Buffer.byteLength(json) > longestResult)
    throw new BadResultError(key, `it has more than ${longestResult} bytes as JSON`)
  return json
}

/** Also for who has worked: all callers get the same. */
function parse<T>(json: string | null): T {
  return (json === null ? undefined : JSON.parse(json)) as T
}
