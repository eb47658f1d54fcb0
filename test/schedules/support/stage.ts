import { escapeIdentifier } from 'pg'
import { createDatabase, type DatabaseOptions, type TestDatabase } from '../../support/database.ts'
import { type Leftovers, leftovers } from '../../support/leftovers.ts'
import { until } from '../../support/until.ts'
import { Actor, type Row } from './actor.ts'

/** A row of `locks`. */
export interface Held {
  readonly key: string
  readonly session: string | null
  readonly token: bigint
  readonly contended: boolean
  readonly released: boolean
}

/** A database and the actors of one test in it. */
export class Stage {
  readonly db: TestDatabase
  readonly #schema: string
  readonly #actors: Actor[] = []
  readonly #undoings: (() => Promise<void>)[] = []
  #keys = 0

  private constructor(db: TestDatabase) {
    this.db = db
    this.#schema = escapeIdentifier(db.schema)
  }

  static async create(options?: DatabaseOptions): Promise<Stage> {
    return new Stage(await createDatabase(options))
  }

  /** A key that no other test uses. */
  key(name = 'k'): string {
    return `${name} ${++this.#keys}`
  }

  /** Somebody with an open session, unless `ttl` is null. */
  async actor(name: string, ttl: string | null = '30s'): Promise<Actor> {
    const actor = new Actor(this.db, name)
    this.#actors.push(actor)
    await actor.connect()
    if (ttl !== null) await actor.open(ttl)
    return actor
  }

  async sql(text: string, values: unknown[] = []): Promise<Row[]> {
    return await this.db.query(
      text.replaceAll('$schema', () => this.#schema),
      values,
    )
  }

  async lock(key: string): Promise<Held | undefined> {
    const [row] = await this.sql(
      'select key, session, token, contended, released from $schema.locks where key = $1',
      [key],
    )
    return row && ({ ...row, token: BigInt(row.token) } as Held)
  }

  /** Milliseconds until a grant that was forced ends, whatever is renewed; null: it is not. */
  async forcedLeft(key: string): Promise<number | null> {
    const [row] = await this.sql(
      `select (extract(epoch from forced_until - clock_timestamp()) * 1000)::float8 as left
         from $schema.locks where key = $1`,
      [key],
    )
    return row?.left ?? null
  }

  /** As if a ttl had passed since the mark. */
  async forcedIsDue(key: string): Promise<void> {
    await this.sql(
      `update $schema.locks set forced_until = clock_timestamp() - interval '1 ms'
        where key = $1 and forced_until is not null`,
      [key],
    )
  }

  /** The sessions in line for a key, first one first. */
  async line(key: string): Promise<string[]> {
    const rows = await this.sql('select session from $schema.waiters where key = $1 order by ticket', [key])
    return rows.map(row => row.session)
  }

  /** What is stored of a session: its life, and the milliseconds until it expires. */
  async session(actor: Actor): Promise<{ dead: boolean; generation: number; left: number } | undefined> {
    const [row] = await this.sql(
      `select died is not null as dead, generation::int,
              (extract(epoch from expires_at - clock_timestamp()) * 1000)::float8 as left
         from $schema.sessions where id = $1`,
      [actor.session],
    )
    return row as { dead: boolean; generation: number; left: number } | undefined
  }

  /** As if its heartbeats had failed for that long. Not a change that any FOR KEY SHARE would wait for. */
  async expire(actor: Actor): Promise<void> {
    await this.sql(
      `update $schema.sessions set expires_at = clock_timestamp() - interval '1 second' where id = $1`,
      [actor.session],
    )
  }

  /** The next tick looks after everybody, though another has done so within the second. */
  async reapDue(): Promise<void> {
    await this.sql(`update $schema.reaper set looked_at = '-infinity'`)
  }

  /** As if `max_ttl` had passed since commits were lost. */
  async endQuarantine(): Promise<void> {
    await this.sql(
      `with over as (update $schema.cluster set quarantined_until = null returning 1)
       update $schema.locks set rests_until = null from over where rests_until is not null`,
    )
  }

  /** Resolves once `actor` waits in the server, for just these. */
  async blocked(actor: Actor, ...by: Actor[]): Promise<void> {
    const wanted = by.map(each => each.pid).sort()
    await until(
      async () => {
        const [row] = await this.sql('select pg_blocking_pids($1) as pids', [actor.pid])
        const pids = [...new Set<number>(row?.pids)].sort()
        return pids.length > 0 && JSON.stringify(pids) === JSON.stringify(wanted)
      },
      { what: 'the actor waits for them' },
    )
  }

  /** Has it done at the end of the test at the latest; the answer does it before, and only once. */
  atEnd(undo: () => Promise<void>): () => Promise<void> {
    let done: Promise<void> | undefined
    const once = () => {
      done ??= undo()
      return done
    }
    this.#undoings.push(once)
    return once
  }

  /** Does all that was left for the end of the test, the last first. */
  async undo(): Promise<void> {
    for (const undo of this.#undoings.splice(0).reverse()) await undo()
  }

  /** Ends the test's actors and their sessions, and answers what is left in the database then. */
  async clear(): Promise<Omit<Leftovers, 'backends'>> {
    await this.undo()
    for (const actor of this.#actors) await actor.end()
    // A backend learns late that its client is gone: what it holds would make us wait, or be skipped.
    await this.sql(
      `select pg_terminate_backend(pid, 5000) from pg_stat_activity where pid = any($1) and pid <> pg_backend_pid()`,
      [this.#actors.map(actor => actor.pid)],
    )
    for (const actor of this.#actors.splice(0)) {
      await this.sql('select $schema.close_session($1)', [actor.session])
    }
    await this.endQuarantine()
    await this.reapDue()
    await this.sql('select $schema.tick(gen_random_uuid())')
    const { backends: _, ...left } = await leftovers(this.db.pool({ max: 1 }), this.db.schema)
    const [dead] = await this.sql('select count(*)::int as count from $schema.sessions')
    return { ...left, sessions: dead?.count ?? -1 }
  }

  async drop(): Promise<void> {
    await this.db.drop()
  }
}
