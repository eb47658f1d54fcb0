import { escapeIdentifier } from 'pg'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { Fencepost, type FencepostOptions } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { expectNothingLeft } from '../support/leftovers.ts'
import { clientOptions } from '../support/twist.ts'

/** A database for one test file, connected to as the twist says, and the clients of each test. */
export class Stage {
  readonly #clients: Fencepost[] = []
  #db: TestDatabase | undefined

  constructor() {
    beforeAll(async () => {
      this.#db = await createDatabase()
    })
    afterEach(async () => {
      await Promise.all(this.#clients.splice(0).map(client => client.close({ timeout: 0 })))
      await expectNothingLeft(this.db.pool({ max: 1 }), this.db.schema)
    })
    afterAll(() => this.#db?.drop())
  }

  get db(): TestDatabase {
    if (!this.#db) throw new Error('not before the first test')
    return this.#db
  }

  client(options: Partial<FencepostOptions> = {}): Fencepost {
    const made = new Fencepost({ ...clientOptions(this.db), ...options })
    this.#clients.push(made)
    return made
  }

  /** One statement straight to the database; `$schema` stands for ours. */
  async sql<Row extends Record<string, unknown>>(text: string, values: unknown[] = []): Promise<Row[]> {
    return await this.db.query(
      text.replaceAll('$schema', () => escapeIdentifier(this.db.schema)),
      values,
    )
  }
}
