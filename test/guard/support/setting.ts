import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { escapeIdentifier } from 'pg'
import { Fencepost, type FencepostOptions } from '../../../src/index.ts'
import { createDatabase, type TestDatabase } from '../../support/database.ts'
import { expectNothingLeft } from '../../support/leftovers.ts'
import { type PostgresProxy, startProxy } from '../../support/proxy.ts'
import { clientOptions } from '../../support/twist.ts'

/** A database with one table, and the clients of one test. */
export class Setting {
  readonly db: TestDatabase
  readonly #clients: Fencepost[] = []
  readonly #proxies: PostgresProxy[] = []
  #keys = 0

  private constructor(db: TestDatabase) {
    this.db = db
  }

  static async create(): Promise<Setting> {
    const db = await createDatabase()
    await db.query('create table notes (text text not null)')
    return new Setting(db)
  }

  key(): string {
    return `k ${++this.#keys}`
  }

  fencepost(options: FencepostOptions = {}): Fencepost {
    const client = new Fencepost({ ...clientOptions(this.db), ...options })
    this.#clients.push(client)
    return client
  }

  /** A client whose transactions go through a proxy, and nothing else of it does. */
  async throughProxy(
    options: FencepostOptions = {},
  ): Promise<{ fp: Fencepost; proxy: PostgresProxy; pool: pg.Pool }> {
    const proxy = await startProxy(this.db.url)
    this.#proxies.push(proxy)
    // With no timers of its own, so that a test may ask for those of its subject.
    const pool = this.db.pool({ connectionString: proxy.url(this.db.url), max: 2, idleTimeoutMillis: 0 })
    // Its own connections are opened by the options: straight to the server.
    const straight = this.db.pool()
    const mixed = Object.create(straight, { connect: { value: () => pool.connect() } })
    return { fp: this.fencepost({ ...options, pool: mixed }), proxy, pool }
  }

  async notes(): Promise<string[]> {
    return (await this.db.query<{ text: string }>('select text from notes order by text')).map(
      row => row.text,
    )
  }

  /** A client inside a transaction of its own. Released by {@link clear}. */
  async begun(begin = 'begin'): Promise<pg.PoolClient> {
    const client = await this.db.pool({ max: 1 }).connect()
    client.on('error', () => {})
    await client.query(begin)
    this.#open.push(client)
    return client
  }
  readonly #open: pg.PoolClient[] = []

  /** A session with no client behind it. Closed by {@link clear}. */
  async session(): Promise<string> {
    const id = randomUUID()
    await this.db.query(`select ${escapeIdentifier(this.db.schema)}.open_session($1, '30s')`, [id])
    this.#sessions.push(id)
    return id
  }
  readonly #sessions: string[] = []

  /** Ends what a test has left open; nothing is left of it in the database then. */
  async clear(): Promise<void> {
    for (const client of this.#open.splice(0)) client.release(true)
    for (const proxy of this.#proxies.splice(0)) await proxy.close()
    for (const id of this.#sessions.splice(0)) {
      await this.db.query(`select ${escapeIdentifier(this.db.schema)}.close_session($1)`, [id])
    }
    await Promise.all(this.#clients.splice(0).map(client => client.close()))
    await this.db.query('delete from notes')
    await expectNothingLeft(this.db.pool({ max: 1 }), this.db.schema)
  }
}
