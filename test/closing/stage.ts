import { escapeIdentifier } from 'pg'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import { Child } from '../support/child.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { clientOptions } from '../support/twist.ts'
import { until } from '../support/until.ts'

export const script: URL = new URL('./closer.mjs', import.meta.url)

/** A database for one test file, with a client in this process, and the processes of each test. */
export class Stage {
  readonly #children: Child[] = []
  #db: TestDatabase | undefined
  #other: Fencepost | undefined

  constructor() {
    beforeAll(async () => {
      this.#db = await createDatabase()
      this.#other = new Fencepost(clientOptions(this.#db))
    })
    afterEach(async () => {
      await Promise.all(this.#children.splice(0).map(child => child.kill()))
      // What is held here goes with its session, and so does what a killed process has left.
      await this.sql(`update $schema.sessions set expires_at = '-infinity'`)
      await this.#other?.close({ timeout: 0 })
      this.#other = new Fencepost(clientOptions(this.db))
      await until(async () => {
        await this.sql(`update $schema.reaper set looked_at = '-infinity'`)
        await this.sql('select $schema.tick(gen_random_uuid())')
        return (await this.sql('select from $schema.sessions')).length === 0
      })
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

  /** Who is next. */
  get other(): Fencepost {
    if (!this.#other) throw new Error('not before the first test')
    return this.#other
  }

  args(deed: string, url: string = this.db.twistedUrl): [string, string] {
    return [JSON.stringify({ connectionString: url, schema: this.db.schema }), deed]
  }

  start(deed: string, url?: string): Child {
    const child = new Child(script, { args: this.args(deed, url) })
    this.#children.push(child)
    return child
  }

  /** One statement straight to the database; `$schema` stands for ours. */
  async sql(text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
    return await this.db.query(
      text.replaceAll('$schema', () => escapeIdentifier(this.db.schema)),
      values,
    )
  }

  /** How many hold a key, by the database's account. */
  async holders(key = 'k'): Promise<number> {
    return (await this.sql('select from $schema.held where key = $1', [key])).length
  }

  /** Settles when so many are in line for a key. */
  async inLine(key = 'k', count = 1): Promise<void> {
    const look = async () =>
      (await this.sql('select from $schema.waiters where key = $1', [key])).length === count
    await until(look, { what: `${count} in line for ${key}` })
  }
}
