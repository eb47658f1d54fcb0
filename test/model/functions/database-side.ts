import { randomUUID } from 'node:crypto'
import pg from 'pg'
import type { TestDatabase } from '../../support/database.ts'
import type { Want } from './protocol.ts'

/** A row of the SQL type `answer`. */
export interface Row {
  readonly request: string | null
  readonly outcome: string
  readonly token: string | null
  readonly key: string | null
  readonly channel: string | null
}

/** The rows of the three tables that the model has an idea of. */
export interface Tables {
  readonly sessions: { id: string; generation: number; died: boolean }[]
  readonly grants: {
    key: string
    session: string | null
    request: string | null
    token: string
    token_to: string | null
    contended: boolean
    released: boolean
  }[]
  readonly tickets: { key: string; session: string; request: string; token: string | null }[]
}

/** The SQL functions over one connection, one call a transaction; and guards, each in an open transaction of its own. */
export class DatabaseSide {
  readonly #client: pg.PoolClient
  readonly #guards: readonly pg.PoolClient[]
  readonly #schema: string

  private constructor(schema: string, client: pg.PoolClient, guards: readonly pg.PoolClient[]) {
    this.#schema = pg.escapeIdentifier(schema)
    this.#client = client
    this.#guards = guards
  }

  static async connect(db: TestDatabase, guards: number): Promise<DatabaseSide> {
    const pool = db.pool({ max: guards + 1 })
    const clients = await Promise.all(Array.from({ length: guards + 1 }, () => pool.connect()))
    const [client, ...rest] = clients as [pg.PoolClient, ...pg.PoolClient[]]
    return new DatabaseSide(db.schema, client, rest)
  }

  disconnect(): void {
    for (const client of [this.#client, ...this.#guards]) client.release(true)
  }

  async empty(): Promise<void> {
    for (const guard of this.#guards) await guard.query('rollback')
    for (const table of ['waiters', 'locks', 'sessions']) await this.#query(`delete from SCHEMA.${table}`)
  }

  async open(session: string): Promise<boolean> {
    const rows = await this.#query('select * from SCHEMA.open_session($1, $2, null, $3)', [
      session,
      '60s',
      channelOf(session),
    ])
    return rows.length === 1
  }

  acquire(session: string, generation: number, wants: readonly Want[]): Promise<Row[]> {
    return this.#answers('acquire($1, $2, $3, $4, $5)', [
      session,
      generation,
      wants.map(want => want.key),
      wants.map(want => want.request),
      wants.map(want => want.waits),
    ])
  }

  release(session: string, pairs: readonly { key: string; token: string }[]): Promise<Row[]> {
    return this.#answers('release($1, $2, $3)', [
      session,
      pairs.map(pair => pair.key),
      pairs.map(pair => pair.token),
    ])
  }

  releaseAndAcquire(
    session: string,
    generation: number,
    { key, token }: { key: string; token: string },
    requests: readonly string[],
  ): Promise<Row[]> {
    return this.#answers('release_and_acquire($1, $2, $3, $4, $5)', [
      session,
      generation,
      key,
      token,
      requests,
    ])
  }

  async turn(session: string, key: string, token: string): Promise<void> {
    await this.#query('select SCHEMA.turn($1, $2, $3)', [session, [key], [token]])
  }

  cancel(session: string, wants: readonly { key: string; request: string }[]): Promise<Row[]> {
    return this.#answers('cancel($1, $2, $3)', [
      session,
      wants.map(want => want.key),
      wants.map(want => want.request),
    ])
  }

  async tick(
    session: string,
    wants: readonly { key: string; request: string }[],
    overAll: boolean,
  ): Promise<Row[]> {
    // Whether a tick looks after everybody depends on when that was done last.
    await this.#query('update SCHEMA.reaper set looked_at = $1', [overAll ? '-infinity' : new Date()])
    return await this.#answers('tick($1, $2, $3)', [
      session,
      wants.map(want => want.key),
      wants.map(want => want.request),
    ])
  }

  close(session: string): Promise<Row[]> {
    return this.#answers('close_session($1)', [session])
  }

  async heartbeat(session: string): Promise<{ renewed: boolean; held: number; tokens: bigint }> {
    const [row] = await this.#query('select renewed, held, tokens from SCHEMA.heartbeat($1)', [session])
    return { renewed: row?.renewed, held: Number(row?.held), tokens: BigInt(row?.tokens) }
  }

  async raise(session: string, generation: number): Promise<number | null> {
    const [row] = await this.#query('select SCHEMA.raise_generation($1, $2) as raised', [session, generation])
    return row?.raised == null ? null : Number(row.raised)
  }

  async settle(session: string): Promise<{ key: string; token: string; requests: string }[]> {
    return (await this.#query('select key, token, requests::text from SCHEMA.settle($1) where not forced', [
      session,
    ])) as never
  }

  async expire(session: string): Promise<void> {
    await this.#query(
      `update SCHEMA.sessions set expires_at = clock_timestamp() - interval '1 s' where id = $1`,
      [session],
    )
  }

  force(key: string, token: string, now: boolean): Promise<Row[]> {
    return this.#answers(`force_release($1, 'a model', $2, $3)`, [key, token, now])
  }

  /** As if a ttl had passed since the mark, and nothing else had. */
  async due(key: string): Promise<void> {
    await this.#query(
      `update SCHEMA.locks set forced_until = clock_timestamp() - interval '1 s'
        where key = $1 and forced_until is not null`,
      [key],
    )
  }

  /** Begins a transaction and pins in it. */
  async pin(guard: number, key: string, token: string): Promise<boolean> {
    const client = this.#guards[guard] as pg.PoolClient
    await client.query('begin')
    try {
      await client.query(`select ${this.#schema}.assert_held($1, $2)`, [key, token])
      return true
    } catch (error) {
      if ((error as pg.DatabaseError).code !== 'FP003') throw error
      await client.query('rollback')
      return false
    }
  }

  async unpin(guard: number, commit: boolean): Promise<void> {
    await this.#guards[guard]?.query(commit ? 'commit' : 'rollback')
  }

  async tables(): Promise<Tables> {
    const [row] = await this.#query(
      `select (select coalesce(json_agg(s order by s.id), '[]')
                 from (select id, generation, died is not null as died from SCHEMA.sessions) s) as sessions,
              (select coalesce(json_agg(l order by l.key), '[]')
                 from (select key, session, request, token::text, token_to::text, contended, released from SCHEMA.locks) l) as grants,
              (select coalesce(json_agg(w order by w.key, w.ticket), '[]')
                 from (select key, ticket, session, request, token::text from SCHEMA.waiters) w) as tickets`,
    )
    return row as unknown as Tables
  }

  async #answers(call: string, values: unknown[]): Promise<Row[]> {
    return (await this.#query(
      `select request, outcome, token, key, channel from SCHEMA.${call}`,
      values,
    )) as unknown as Row[]
  }

  // biome-ignore lint/suspicious/noExplicitAny: rows of many shapes, each read where it is asked for
  async #query(text: string, values: unknown[] = []): Promise<Record<string, any>[]> {
    return (await this.#client.query(text.replaceAll('SCHEMA', this.#schema), values)).rows
  }
}

export const channelOf = (session: string): string => `channel of ${session}`
export const newId = (): string => randomUUID()
