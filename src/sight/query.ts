import { checkOptions } from '../options.ts'
import type { SightHost } from './host.ts'

export interface QueryOptions {
  /** Of this key alone, under the client's namespace. @default all keys of the schema, whatever their namespace */
  readonly key?: string | undefined
}

/** Who somebody is, by what their client says of itself; null where it says nothing. */
export interface Party {
  readonly owner: string | null
  readonly host: string | null
  readonly pid: number | null
  /** The `application_name` of its pool. */
  readonly application: string | null
}

interface Entry extends Party {
  /** The whole key, namespace included. */
  readonly key: string
  readonly mode: 'exclusive'
  readonly label: string | null
  readonly metadata: unknown
  /** By the server's clock. */
  readonly since: Date
  /** Milliseconds until its session expires unless that is renewed. */
  readonly ttlLeft: number
}

/** A key that somebody holds. Data, no handle: nothing can be released with it. */
export interface Held extends Entry {
  readonly token: bigint
  /**
   * `forced`: an operator took it, and the line moves on within `ttlLeft`, renewed or not. `released`: given up, and
   * pinned by a guard that is still open.
   */
  readonly state: 'held' | 'forced' | 'released'
  /** How many wait for it. */
  readonly waiting: number
}

/** Somebody in line. */
export interface Pending extends Entry {
  /** 1 is next. Places before this one block it, too. */
  readonly place: number
  /** Milliseconds, by the server's clock. */
  readonly waited: number
  /** Who holds the key; null while it is being handed over. */
  readonly blockedBy: (Party & { readonly token: bigint }) | null
}

export interface Overview {
  /** By key. */
  readonly held: readonly Held[]
  /** By key, then by place. */
  readonly pending: readonly Pending[]
}

interface Raw extends Party {
  readonly key: string
  readonly mode: 'exclusive'
  readonly label: string | null
  readonly metadata: unknown
  readonly since: number
  readonly left: number | null
}
interface RawHeld extends Raw {
  readonly token: string
  readonly state: Held['state']
}
interface RawPending extends Raw {
  readonly place: number
  readonly waited: number
}

/** Who holds and who waits, as of one snapshot. @throws BadKeyError, BadOptionError, UnreachableError, NotMigratedError */
export async function query(host: SightHost, options: QueryOptions = {}): Promise<Overview> {
  const { key: name } = checkOptions(options)
  const key = name === undefined ? undefined : host.fullKey(name)
  const json = await host.ask(({ wire, timeout }) => host.calls.query(wire, timeout, key))
  return overview(JSON.parse(json) as { held: RawHeld[]; pending: RawPending[] })
}

function overview({ held, pending }: { held: readonly RawHeld[]; pending: readonly RawPending[] }): Overview {
  const waiting = new Map<string, number>()
  for (const { key } of pending) waiting.set(key, (waiting.get(key) ?? 0) + 1)
  const holders = new Map(
    held.map(each => [each.key, { ...partyOf(each), token: BigInt(each.token) }] as const),
  )
  return {
    held: held.map(each => ({
      ...entryOf(each),
      token: BigInt(each.token),
      state: each.state,
      waiting: waiting.get(each.key) ?? 0,
    })),
    pending: pending.map(each => ({
      ...entryOf(each),
      place: each.place,
      waited: each.waited,
      blockedBy: holders.get(each.key) ?? null,
    })),
  }
}

const partyOf = ({ owner, host, pid, application }: Party): Party => ({ owner, host, pid, application })

function entryOf(raw: Raw): Entry {
  const { key, mode, label, metadata, since, left } = raw
  return { key, mode, ...partyOf(raw), label, metadata, since: new Date(since), ttlLeft: left ?? 0 }
}
