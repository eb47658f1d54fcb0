import { escapeIdentifier } from 'pg'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { Fencepost, type Lock } from '../../src/index.ts'
import { Child, type Message } from '../support/child.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'

export const ttl = 1_500

interface ClientOptions {
  readonly watchdog?: boolean
  readonly ttl?: number
}

/** A process that holds locks, and blocks its event loop. */
export class Holder extends Child {
  async client(name: string, options: ClientOptions): Promise<void> {
    this.send('client', { client: name, options })
    await this.message('made')
  }

  async hold(key: string, fields: Readonly<Record<string, unknown>> = {}): Promise<void> {
    this.send('hold', { key, ...fields })
    await this.message('held')
  }

  async release(key: string): Promise<void> {
    this.send('release', { key })
    await this.message('released')
  }

  /** Keeps its event loop busy for so long; answers the states of its locks right after that. */
  async block(ms: number): Promise<Message> {
    this.send('block', { ms })
    return await this.message('unblocked')
  }

  /** What the watchdog has said. */
  get lastWords(): string[] {
    return this.log.filter(line => line.includes('watchdog'))
  }
}

/** A database for one test file, with a client in this process, and the processes of each test. */
export class Stage {
  readonly #holders: Holder[] = []
  #db: TestDatabase | undefined
  #other: Fencepost | undefined

  constructor() {
    beforeAll(async () => {
      this.#db = await createDatabase()
      this.#other = new Fencepost({ pool: this.db.pool(), schema: this.db.schema })
    })
    afterEach(async () => {
      await Promise.all(this.#holders.splice(0).map(holder => holder.kill()))
    })
    afterAll(async () => {
      await this.#other?.close({ timeout: 0 })
      await this.#db?.drop()
    })
  }

  get db(): TestDatabase {
    if (!this.#db) throw new Error('not before the first test')
    return this.#db
  }

  options(url: string = this.db.url): string {
    return JSON.stringify({ connectionString: url, schema: this.db.schema })
  }

  /** A process with a client called `one`. */
  async holder(options: ClientOptions = {}, url?: string): Promise<Holder> {
    const holder = new Holder(new URL('./holder.mjs', import.meta.url), { args: [this.options(url)] })
    this.#holders.push(holder)
    await holder.message('ready')
    await holder.client('one', { watchdog: true, ttl, ...options })
    return holder
  }

  /** Waits in line for a key, from another process. */
  async next(key: string): Promise<Lock> {
    if (!this.#other) throw new Error('not before the first test')
    return await this.#other.acquire(key)
  }

  /** Takes a key from its holder. */
  async force(key: string): Promise<void> {
    if (!this.#other) throw new Error('not before the first test')
    expect(await this.#other.forceRelease(key, { reason: 'a test' })).toMatchObject({ outcome: 'forced' })
  }

  /** One statement straight to the database; `$schema` stands for ours. */
  async sql(text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
    return await this.db.query(
      text.replaceAll('$schema', () => escapeIdentifier(this.db.schema)),
      values,
    )
  }
}
