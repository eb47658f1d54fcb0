import { escapeIdentifier } from 'pg'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { leftovers, nothing } from '../support/leftovers.ts'
import { until } from '../support/until.ts'
import { Worker } from './worker.ts'

/** A database for one test file, and the processes of each test. */
export class Stage {
  readonly #workers: Worker[] = []
  #db: TestDatabase | undefined

  /** @param adminUrl of the server, where that is not the shared one */
  constructor(adminUrl?: () => Promise<string>) {
    beforeAll(async () => {
      this.#db = await createDatabase(adminUrl ? { adminUrl: await adminUrl() } : {})
    })
    afterEach(async () => {
      // Closed in good order where that can still be; then nothing is left but the sessions of those that were killed.
      for (const worker of this.#workers) {
        worker.cont()
        worker.send('close')
      }
      await Promise.all(this.#workers.splice(0).map(worker => worker.exit))
      await until(async () => {
        // Each time: where the server was restarted, the first of our calls begins everybody's time anew.
        await this.sql(`update $schema.sessions set expires_at = '-infinity'`)
        await this.sql(`update $schema.reaper set looked_at = '-infinity'`)
        await this.sql('select $schema.tick(gen_random_uuid())')
        const left = await leftovers(this.db.pool({ max: 1 }), this.db.schema)
        expect(left).toMatchObject(nothing)
        return true
      })
    })
    afterAll(() => this.#db?.drop())
  }

  get db(): TestDatabase {
    if (!this.#db) throw new Error('not before the first test')
    return this.#db
  }

  /** Processes that are up, each with a client. */
  async workers(...options: ConstructorParameters<typeof Worker>[1][]): Promise<Worker[]> {
    const made = options.map(each => this.adopt(new Worker(this.db, each)))
    await Promise.all(made.map(worker => worker.message('ready')))
    return made
  }

  /** Has it ended with the test. */
  adopt(worker: Worker): Worker {
    this.#workers.push(worker)
    return worker
  }

  /** One statement straight to the database; `$schema` stands for ours. */
  // biome-ignore lint/suspicious/noExplicitAny: the test that wrote the statement knows
  async sql(text: string, values: unknown[] = []): Promise<Record<string, any>[]> {
    return await this.db.query(
      text.replaceAll('$schema', () => escapeIdentifier(this.db.schema)),
      values,
    )
  }

  /** Waits until so many hold a key. */
  async holding(key: string, count: number): Promise<void> {
    const look = async () => {
      const rows = await this.sql('select from $schema.held where key = $1', [key])
      return rows.length === count
    }
    await until(look, { what: `${count} hold ${key}` })
  }

  /** Waits until so many are in line for a key. */
  async inLine(key: string, count: number): Promise<void> {
    const look = async () => {
      const rows = await this.sql('select from $schema.waiters where key = $1', [key])
      return rows.length === count
    }
    await until(look, { what: `${count} in line for ${key}` })
  }
}
