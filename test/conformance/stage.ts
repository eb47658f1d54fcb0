import pg from 'pg'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import type { Fencepost, FencepostOptions, Lock } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { expectNothingLeft } from '../support/leftovers.ts'
import { until } from '../support/until.ts'
import { exclusive, type Kind, type MakeKind } from './kinds.ts'

/** One way of connecting to a database. */
export interface Way {
  readonly options: FencepostOptions
  /** The application's own pool, which Fencepost reads, or calls; absent where it is given none. */
  readonly pool?: pg.Pool
  /** Whether Fencepost opens its connections itself. */
  readonly opensItsOwn: boolean
}

/** @param config of the application's pool */
export type MakeWay = (db: TestDatabase, config?: pg.PoolConfig) => Way

/**
 * A database for the tests of one `describe`, and the clients that they make. After each test the clients are closed,
 * and then nothing may be left.
 */
export class Stage {
  readonly #make: MakeWay
  readonly #owners = new Map<Fencepost, string>()
  #db: TestDatabase | undefined
  #way: Way | undefined
  readonly #kind: Kind

  constructor(make: MakeWay, kind: MakeKind = exclusive) {
    this.#make = make
    this.#kind = kind()
    beforeAll(async () => {
      this.#db = await createDatabase()
      this.#way = make(this.#db)
    })
    afterEach(async () => {
      await Promise.all([...this.#owners.keys()].map(client => client.close({ timeout: 0 })))
      this.#owners.clear()
      try {
        await expectNothingLeft(this.db.pool({ max: 1 }), this.db.schema)
      } finally {
        // What one test left is not the next one's failure.
        for (const table of ['waiters', 'holders', 'locks', 'sessions'])
          await this.db.query(`delete from ${this.sql(table)}`)
      }
    })
    afterAll(() => this.#db?.drop())
  }

  get db(): TestDatabase {
    if (!this.#db) throw new Error('not before the first test')
    return this.#db
  }

  /** The way that {@link client} takes. */
  get way(): Way {
    if (!this.#way) throw new Error('not before the first test')
    return this.#way
  }

  /** Another way of the same kind, with an application's pool of its own. */
  newWay(config: pg.PoolConfig): Way {
    return this.#make(this.db, config)
  }

  client(options: Partial<FencepostOptions> = {}, way: Way = this.way): Fencepost {
    const owner = `client ${crypto.randomUUID()}`
    const client = this.#kind.client({ ...way.options, owner, ...options })
    this.#owners.set(client, owner)
    return client
  }

  /** What a lock of a key is called in its handle and in errors. */
  named(key: string): string {
    return this.#kind.named(key)
  }

  /** The fencing token of a lock for the key that was asked for. */
  token(lock: Lock): bigint {
    return this.#kind.token(lock)
  }

  /** What a client calls itself in the database. */
  ownerOf(client: Fencepost): string {
    const owner = this.#owners.get(client)
    if (owner === undefined) throw new Error('not a client of this stage')
    return owner
  }

  /** The name of a relation or a function, quoted. */
  sql(name: string): string {
    return `${pg.escapeIdentifier(this.db.schema)}.${name}`
  }

  /** How many wait in line for a key. */
  async waiting(key: string): Promise<number> {
    const rows = await this.db.query(`select from ${this.sql('waiters')} where key = $1`, [key])
    return rows.length
  }

  /** Settles when so many are in line for a key. */
  async queued(key: string, count: number): Promise<void> {
    await until(async () => (await this.waiting(key)) === count, { what: `${count} wait for ${key}` })
  }

  /** Whose sessions hold a key by the database's account. */
  async holders(key: string): Promise<string[]> {
    const rows = await this.db.query<{ owner: string }>(
      `select owner from ${this.sql('held')} where key = $1 and not released`,
      [key],
    )
    return rows.map(({ owner }) => owner)
  }

  /** Keys in use, but for semaphores that nobody has permits of: they stay. */
  async keysInUse(): Promise<string[]> {
    const rows = await this.db.query<{ key: string }>(
      `select key from ${this.sql('locks')} where mode is distinct from 'permits'
       union select key from ${this.sql('holders')} order by key`,
    )
    return rows.map(({ key }) => key)
  }

  /** Lets the time of a client's sessions be over: whoever meets one may bury it. The client is not told. */
  expire(client: Fencepost): Promise<void> {
    return this.#strike(client, `expires_at = clock_timestamp() - interval '1 s'`)
  }

  /** Stores the death of a client's sessions, as somebody does who found them expired. The client is not told. */
  bury(client: Fencepost): Promise<void> {
    return this.#strike(client, 'died = clock_timestamp(), generation = generation + 1')
  }

  async #strike(client: Fencepost, blow: string): Promise<void> {
    const struck = await this.db.query(
      `update ${this.sql('sessions')} set ${blow} where owner = $1 and died is null returning id`,
      [this.ownerOf(client)],
    )
    expect(struck).not.toEqual([])
  }
}
