import type { LockMode } from '../lock/lock.ts'
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
  readonly mode: LockMode
  /** How many of a semaphore's it holds, or waits for; null: it is none. */
  readonly permits: number | null
  /** How many permits that semaphore has; of one in line, has by its word. Null: it is none. */
  readonly capacity: number | null
  readonly label: string | null
  readonly metadata: unknown
  /** By the server's clock. */
  readonly since: Date
  /** Milliseconds until its session expires unless that is renewed. */
  readonly ttlLeft: number
}

/** Somebody who holds a key; of several who hold it together, one. Data, no handle: nothing can be released with it. */
export interface Held extends Entry {
  readonly token: bigint
  /**
   * `forced`: an operator took it, and the line moves on within `ttlLeft`, renewed or not. `released`: given up, and
   * pinned by a guard that is still open.
   */
  readonly state: 'held' | 'forced' | 'released'
  /** How many wait for the key. */
  readonly waiting: number
}

/** Whom somebody in line waits for. */
export interface Blocker extends Party {
  readonly token: bigint
  readonly permits: number | null
}

/** Somebody in line; who wants several keys, in the line of one of them. */
export interface Pending extends Entry {
  /** 1 is next. Places before this one block it, too. */
  readonly place: number
  /** Milliseconds, by the server's clock. */
  readonly waited: number
  /**
   * All who hold the key, by token: of a semaphore, all who hold permits, whether one of them would be enough or not. Nobody
   * while it is handed over, rests, or is kept free for who wants others with it.
   */
  readonly blockedBy: readonly Blocker[]
}

export interface Overview {
  /** By key, then by token. */
  readonly held: readonly Held[]
  /** By key, then by place. */
  readonly pending: readonly Pending[]
}

interface Raw extends Party {
  readonly key: string
  readonly mode: LockMode
  readonly permits: number | null
  readonly capacity: number | null
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
  const holders = new Map<string, Blocker[]>()
  for (const each of held) {
    const blocker = { ...partyOf(each), token: BigInt(each.token), permits: each.permits }
    holders.set(each.key, [...(holders.get(each.key) ?? []), blocker])
  }
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
      blockedBy: holders.get(each.key) ?? [],
    })),
  }
}

const partyOf = ({ owner, host, pid, application }: Party): Party => ({ owner, host, pid, application })

function entryOf(raw: Raw): Entry {
  const { key, mode, permits, capacity, label, metadata, since, left } = raw
  const party = partyOf(raw)
  return {
    key,
    mode,
    permits,
    capacity,
    ...party,
    label,
    metadata,
    since: new Date(since),
    ttlLeft: left ?? 0,
  }
}
