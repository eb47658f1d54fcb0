import { randomUUID } from 'node:crypto'
import pg from 'pg'
import type { TestDatabase } from '../../support/database.ts'
import type { State } from './state.ts'

/** A row of the SQL type `answer`. */
export interface Answer {
  readonly request: string | null
  readonly outcome: string
  readonly token: string | null
  readonly key: string | null
  readonly channel: string | null
  readonly level: string | null
}

export interface Ask {
  readonly key: string
  readonly request: string
  readonly waits: boolean
  readonly mode: 'shared' | 'permits' | null
  readonly permits?: number
  readonly capacity?: number
  readonly wide?: boolean
  /** Milliseconds. */
  readonly delay?: number
}

type Place = { readonly key: string; readonly request: string }
type Pair = { readonly key: string; readonly token: string }

/** The SQL functions over one connection, one call a transaction; and others with a transaction open: guards, and who has a session's row. */
export class Database {
  readonly #client: pg.PoolClient
  readonly #others: readonly pg.PoolClient[]
  readonly #schema: string

  private constructor(schema: string, clients: readonly pg.PoolClient[]) {
    const [client, ...others] = clients as [pg.PoolClient, ...pg.PoolClient[]]
    this.#schema = pg.escapeIdentifier(schema)
    this.#client = client
    this.#others = others
  }

  static async connect(db: TestDatabase, others: number): Promise<Database> {
    const pool = db.pool({ max: others + 1 })
    const clients = await Promise.all(Array.from({ length: others + 1 }, () => pool.connect()))
    // Nothing here may wait: one call at a time, and what has a transaction open is to be left alone.
    for (const client of clients) await client.query(`set lock_timeout = '2s'`)
    return new Database(db.schema, clients)
  }

  disconnect(): void {
    for (const client of [this.#client, ...this.#others]) client.release(true)
  }

  async empty(): Promise<void> {
    for (const other of this.#others) await other.query('rollback')
    for (const table of ['waiters', 'holders', 'locks', 'sessions', 'events'])
      await this.#query(`delete from SCHEMA.${table}`)
  }

  async open(session: string): Promise<boolean> {
    const rows = await this.#query(`select * from SCHEMA.open_session($1, '60s', null, $2)`, [
      session,
      channelOf(session),
    ])
    return rows.length === 1
  }

  acquire(session: string, asks: readonly Ask[]): Promise<Answer[]> {
    const plain = asks.every(ask => ask.mode === null && !ask.wide && !ask.delay)
    const terms = asks.map(({ mode, permits, capacity, wide, delay }) =>
      JSON.stringify({
        ...(mode && { mode }),
        ...(permits && { permits, capacity }),
        ...(wide && { wide }),
        ...(delay && { delay }),
      }),
    )
    return this.#answers('acquire($1, 1, $2, $3, $4, null, null, $5::jsonb[])', [
      session,
      asks.map(({ key }) => key),
      asks.map(({ request }) => request),
      asks.map(({ waits }) => waits),
      plain ? null : terms,
    ])
  }

  release(session: string, pairs: readonly Pair[]): Promise<Answer[]> {
    return this.#answers('release($1, $2, $3)', [
      session,
      pairs.map(({ key }) => key),
      pairs.map(({ token }) => token),
    ])
  }

  releaseAndAcquire(session: string, { key, token }: Pair, requests: readonly string[]): Promise<Answer[]> {
    return this.#answers('release_and_acquire($1, 1, $2, $3, $4)', [session, key, token, requests])
  }

  cancel(session: string, places: readonly Place[]): Promise<Answer[]> {
    return this.#answers('cancel($1, $2, $3)', [
      session,
      places.map(({ key }) => key),
      places.map(({ request }) => request),
    ])
  }

  downgrade(session: string, { key, token }: Pair): Promise<Answer[]> {
    return this.#answers('downgrade($1, $2, $3)', [session, key, token])
  }

  resize(session: string, key: string, capacity: number): Promise<Answer[]> {
    return this.#answers('resize($1, $2, $3)', [session, key, capacity])
  }

  async tick(session: string, places: readonly Place[], overAll: boolean): Promise<Answer[]> {
    await this.#query('update SCHEMA.reaper set looked_at = $1', [overAll ? '-infinity' : new Date()])
    return await this.#answers('tick($1, $2, $3)', [
      session,
      places.map(({ key }) => key),
      places.map(({ request }) => request),
    ])
  }

  close(session: string): Promise<Answer[]> {
    return this.#answers('close_session($1)', [session])
  }

  force(key: string, token: string | null, now: boolean): Promise<Answer[]> {
    return this.#answers(`force_release($1, 'a model', $2, $3)`, [key, token, now])
  }

  async heartbeat(session: string): Promise<{ renewed: boolean; held: number; tokens: bigint }> {
    const [row] = await this.#query('select renewed, held, tokens from SCHEMA.heartbeat($1)', [session])
    return { renewed: row?.renewed, held: Number(row?.held), tokens: BigInt(row?.tokens) }
  }

  async settle(session: string): Promise<{ key: string; token: string }[]> {
    return (await this.#query('select key, token from SCHEMA.settle($1) where not forced', [
      session,
    ])) as never
  }

  async expire(session: string): Promise<void> {
    await this.#query(
      `update SCHEMA.sessions set expires_at = clock_timestamp() - interval '1 s' where id = $1`,
      [session],
    )
  }

  /** As if a ttl had passed since the mark, and nothing else had. */
  async due(key: string): Promise<void> {
    for (const table of ['locks', 'holders'])
      await this.#query(
        `update SCHEMA.${table} set forced_until = clock_timestamp() - interval '1 s' where key = $1 and forced_until is not null`,
        [key],
      )
  }

  /** As if every lock delay had passed. */
  async rested(): Promise<void> {
    await this.#query(
      `update SCHEMA.locks set rests_until = clock_timestamp() - interval '1 s' where rests_until is not null`,
    )
  }

  /** Begins a transaction and pins in it. */
  async pin(guard: number, { key, token }: Pair): Promise<boolean> {
    const client = this.#others[guard] as pg.PoolClient
    await client.query('begin')
    const { rowCount } = await client.query(`select from ${this.#schema}.pin($1, $2, false)`, [key, token])
    // What found nothing stays open as well: nobody may wait for it.
    return rowCount === 1
  }

  /** Begins a transaction that has a session's row, as one does that buries it. */
  async seize(other: number, session: string): Promise<void> {
    const client = this.#others[other] as pg.PoolClient
    await client.query('begin')
    await client.query(`select from ${this.#schema}.sessions where id = $1 for update`, [session])
  }

  async end(other: number): Promise<void> {
    await this.#others[other]?.query('commit')
  }

  async state(): Promise<State> {
    const [row] = await this.#query(
      `select (select coalesce(json_agg(json_build_array(id, died is not null, expires_at <= clock_timestamp())), '[]') from SCHEMA.sessions) as sessions,
              (select coalesce(json_agg(json_build_object('key', key, 'mode', mode, 'capacity', capacity, 'session', session,
                        'token', token::text, 'last', coalesce(token_to, token)::text, 'contended', contended,
                        'rests', session is null and rests_until > clock_timestamp())), '[]') from SCHEMA.locks) as rows,
              (select coalesce(json_agg(json_build_object('key', key, 'session', session, 'request', request, 'mode', mode,
                        'permits', permits, 'token', token::text, 'level', level::text, 'released', released,
                        'forced', case when forced_until is null then 'no' when forced_until > clock_timestamp() then 'marked' else 'due' end)
                        order by key, token), '[]')
                 from (select key, session, request, 'exclusive' as mode, null::int as permits, token, null::bigint as level, released, forced_until
                         from SCHEMA.locks where session is not null
                       union all
                       select key, session, request, case when permits is null then 'shared' else 'permits' end, permits, token, level, released, forced_until
                         from SCHEMA.holders) g) as grants,
              (select coalesce(json_agg(json_build_object('key', key, 'session', session, 'request', request,
                        'mode', coalesce(mode, 'exclusive'), 'permits', permits, 'wide', coalesce(wide, false), 'token', token::text)
                        order by ticket), '[]') from SCHEMA.waiters) as tickets`,
    )
    return {
      sessions: new Map(
        row?.sessions.map(([id, died, expired]: [string, boolean, boolean]) => [id, { died, expired }]),
      ),
      rows: new Map(row?.rows.map((each: { key: string }) => [each.key, each])),
      grants: row?.grants,
      tickets: row?.tickets,
    }
  }

  async #answers(call: string, values: unknown[]): Promise<Answer[]> {
    return (await this.#query(
      `select request, outcome, token, key, channel, level from SCHEMA.${call}`,
      values,
    )) as never
  }

  // biome-ignore lint/suspicious/noExplicitAny: rows of many shapes, each read where it is asked for
  async #query(text: string, values: unknown[] = []): Promise<Record<string, any>[]> {
    return (await this.#client.query(text.replaceAll('SCHEMA', this.#schema), values)).rows
  }
}

export const channelOf = (session: string): string => `channel of ${session}`
export const newId = (): string => randomUUID()
