import { randomUUID } from 'node:crypto'
import pg from 'pg'
import type { TestDatabase } from '../../support/database.ts'

/** A row as the driver gives it, whose columns are what the test asked for. */
// biome-ignore lint/suspicious/noExplicitAny: the test that wrote the statement knows
export type Row = Record<string, any>

/** A row of the SQL type `answer`. */
export interface Answer {
  readonly request: string | null
  readonly outcome: string
  readonly token: bigint | null
  readonly key: string | null
  readonly channel: string | null
  readonly expires_in: number | null
}

/** The SQL type `terms`, or what of it is asked for. */
export interface Terms {
  readonly mode?: 'shared' | 'permits'
  readonly permits?: number
  readonly capacity?: number
  readonly wide?: boolean
  /** The request by which the section around it has its lock. */
  readonly context?: string
}

/** What a caller says it has seen: the highest base, the server's time, the milliseconds since. */
export interface Seen {
  readonly base?: bigint
  readonly serverTime?: number
  readonly elapsed?: number
}

export interface Beat {
  readonly renewed: boolean
  readonly boot: string
  readonly base: bigint
  readonly held: bigint
  readonly tokens: bigint
  readonly forced: readonly bigint[]
}

interface Asking {
  readonly request?: string
  readonly wait?: boolean
  readonly generation?: number
  readonly seen?: Seen
  /** Of each key. */
  readonly terms?: readonly Terms[]
}

/** One session on one connection, whose transactions the test begins and ends as its schedule says. */
export class Actor {
  readonly session: string = randomUUID()
  readonly #client: pg.Client
  readonly #schema: string
  pid = 0

  constructor(db: Pick<TestDatabase, 'url' | 'schema'>, name: string) {
    this.#client = new pg.Client({ connectionString: db.url, application_name: name })
    // Actors are killed: what a dead connection says of that is no failure.
    this.#client.on('error', () => {})
    this.#schema = pg.escapeIdentifier(db.schema)
  }

  async connect(): Promise<void> {
    await this.#client.connect()
    const [row] = await this.sql('select pg_backend_pid() as pid')
    this.pid = row?.pid
    // A schedule that waits where it must not fails by this, and says where.
    await this.sql(`set lock_timeout = '8s'`)
  }

  async sql(text: string, values: unknown[] = []): Promise<Row[]> {
    return (
      await this.#client.query(
        text.replaceAll('$schema', () => this.#schema),
        values,
      )
    ).rows
  }

  async begin(isolation = 'read committed'): Promise<void> {
    await this.sql(`begin isolation level ${isolation}`)
  }

  async commit(): Promise<void> {
    await this.sql('commit')
  }

  async rollback(): Promise<void> {
    await this.sql('rollback')
  }

  async open(ttl = '30s', seen?: Seen): Promise<void> {
    await this.sql('select * from $schema.open_session($1, $2, seen => $3)', [this.session, ttl, row(seen)])
  }

  /** One request under a name of its own, or the one that is named. */
  async acquire(key: string, asking: Asking = {}): Promise<Answer> {
    const { request = randomUUID(), wait = true, ...rest } = asking
    const answers = await this.acquireAll([key], [request], [wait], rest)
    const own = answers.find(answer => answer.request === request)
    if (!own) throw new Error(`no answer for ${key}: ${JSON.stringify(answers.map(each => each.outcome))}`)
    return own
  }

  async acquireAll(
    keys: readonly string[],
    requests: readonly string[] = keys.map(() => randomUUID()),
    wait: readonly boolean[] | null = null,
    { generation = 1, seen, terms }: Pick<Asking, 'generation' | 'seen' | 'terms'> = {},
  ): Promise<Answer[]> {
    return await this.#answers('acquire($1, $2, $3, $4, $5, seen => $6, asks => $7::jsonb[])', [
      this.session,
      generation,
      keys,
      requests,
      wait,
      row(seen),
      terms?.map(each => JSON.stringify(each)) ?? null,
    ])
  }

  async release(key: string, token: bigint | null, durable = true, seen?: Seen): Promise<Answer[]> {
    return await this.releaseAll([key], [token], durable, seen)
  }

  async releaseAll(
    keys: readonly string[],
    tokens: readonly (bigint | null)[],
    durable = true,
    seen?: Seen,
  ): Promise<Answer[]> {
    const values = [this.session, keys, tokens.map(String), durable, row(seen)]
    return await this.#answers('release($1, $2, $3, $4, $5)', values)
  }

  /** Gives permits back that were passed on inside the process, to these requests one after the other. */
  async releasePassed(key: string, token: bigint | null, passed: readonly string[]): Promise<Answer[]> {
    const values = [this.session, [key], [String(token)], passed]
    return await this.#answers('release($1, $2, $3, passed => $4)', values)
  }

  /** Says that permits were passed on to a request, inside the process. */
  async turn(key: string, token: bigint | null, request: string): Promise<void> {
    const values = [this.session, [key], [String(token)], [request]]
    await this.sql('select $schema.turn($1, $2, $3, requests => $4)', values)
  }

  async releaseAndAcquire(
    key: string,
    token: bigint | null,
    requests: readonly string[],
    generation = 1,
  ): Promise<Answer[]> {
    const values = [this.session, generation, key, String(token), requests]
    return await this.#answers('release_and_acquire($1, $2, $3, $4, $5)', values)
  }

  async cancel(keys: string | readonly string[], requests: string | readonly string[]): Promise<Answer[]> {
    return await this.#answers('cancel($1, $2, $3)', [this.session, [keys].flat(), [requests].flat()])
  }

  async tick(keys: readonly string[] = [], requests: readonly string[] = [], seen?: Seen): Promise<Answer[]> {
    return await this.#answers('tick($1, $2, $3, $4)', [this.session, keys, requests, row(seen)])
  }

  async downgrade(key: string, token: bigint | null): Promise<Answer[]> {
    return await this.#answers('downgrade($1, $2, $3)', [this.session, key, String(token)])
  }

  async resize(key: string, capacity: number): Promise<Answer[]> {
    return await this.#answers('resize($1, $2, $3)', [this.session, key, capacity])
  }

  async close(): Promise<Answer[]> {
    return await this.#answers('close_session($1)', [this.session])
  }

  async heartbeat(seen?: Seen): Promise<Beat> {
    const [beat] = await this.sql('select * from $schema.heartbeat($1, $2)', [this.session, row(seen)])
    if (!beat) throw new Error('no answer')
    const { renewed, boot, token_base: base, held, tokens } = beat
    const forced = (beat.forced ?? []).map(BigInt)
    return { renewed, boot, base: BigInt(base), held: BigInt(held), tokens: BigInt(tokens), forced }
  }

  /** Takes a key from its holder; the answer for the key comes first. */
  async forceRelease(
    key: string,
    { token = null, now = false, seen }: { token?: bigint | null; now?: boolean; seen?: Seen } = {},
  ): Promise<Answer[]> {
    return await this.#answers('force_release($1, $2, $3, $4, null, $5)', [
      key,
      'a test',
      token === null ? null : String(token),
      now,
      row(seen),
    ])
  }

  /** The new generation, or null: the session is over. */
  async raiseGeneration(from = 1): Promise<number | null> {
    const raised = await this.sql('select $schema.raise_generation($1, $2) as raised', [this.session, from])
    return raised[0]?.raised == null ? null : Number(raised[0].raised)
  }

  /** Stores the death of an expired session, in the transaction that is open: the first half of what a tick does. */
  async bury(session: string): Promise<void> {
    await this.sql('set local search_path = $schema')
    await this.sql('select bury($1, clock_timestamp())', [session])
  }

  /** Pins a grant to the transaction that is open. */
  async guard(key: string, token: bigint | null): Promise<void> {
    await this.sql('select $schema.assert_held($1, $2)', [key, String(token)])
  }

  /** Ends the connection; what it had open is rolled back by the server. */
  async end(): Promise<void> {
    await this.#client.end().catch(() => {})
  }

  async #answers(call: string, values: unknown[]): Promise<Answer[]> {
    const rows = await this.sql(`select * from $schema.${call}`, values)
    return rows.map(({ token, ...rest }) => ({ ...(rest as Answer), token: bigintOf(token) }))
  }
}

const bigintOf = (text: string | null | undefined): bigint | null => (text == null ? null : BigInt(text))

function row(seen: Seen | undefined): string | null {
  if (!seen) return null
  return `(${seen.base ?? ''},${seen.serverTime ?? ''},${seen.elapsed ?? ''})`
}
