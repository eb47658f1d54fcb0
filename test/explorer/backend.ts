import pg from 'pg'
import type { Reply } from './calls.ts'

/** Where an actor's backend is. */
export type Place =
  | { readonly at: 'rest' }
  | { readonly at: 'moving' }
  /** At a gate, in a transaction. */
  | { readonly at: 'gate'; readonly point: number; readonly turn: number }
  /** Waiting for a row that another actor's transaction has. */
  | { readonly at: 'blocked'; readonly by: readonly number[] }
  /** Its call has come back; the transaction is open, or failed where the reply is an error. */
  | { readonly at: 'returned'; readonly reply: Reply }

/** The connection of one actor. */
export class Backend {
  place: Place = { at: 'rest' }
  /** The gate at which it will stop next, by number. */
  turn = 1
  readonly client: pg.Client
  readonly pid: number
  readonly #changed: () => void

  constructor(client: pg.Client, pid: number, changed: () => void) {
    this.client = client
    this.pid = pid
    this.#changed = changed
  }

  arrive(place: Place): void {
    this.place = place
    this.#changed()
  }

  fail(error: Error & { code?: string }): void {
    this.arrive({ at: 'returned', reply: { error: error.code ?? error.message, answers: [] } })
  }
}

/** @param settings of the server, by name */
export async function connect(
  url: string,
  schema: string,
  settings: Record<string, string>,
): Promise<pg.Client> {
  const all = {
    search_path: `${pg.escapeIdentifier(schema)},pg_temp`,
    synchronous_commit: 'off',
    jit: 'off',
    deadlock_timeout: '20ms',
    lock_timeout: '0',
    statement_timeout: '0',
    idle_in_transaction_session_timeout: '0',
    ...settings,
  }
  // In the start-up packet: nothing more has to be asked before the first call.
  const options = Object.entries(all).map(
    ([name, value]) => `-c ${name}=${value.replaceAll(/[\\ ]/g, '\\$&')}`,
  )
  const client = new pg.Client({
    connectionString: url,
    application_name: 'explorer',
    options: options.join(' '),
  })
  // Killed on purpose, some of them.
  client.on('error', () => {})
  await client.connect()
  return client
}

// A call is one text of two statements: the reply is that of the second.
export function replyOf(results: readonly pg.QueryResult[]): Reply {
  const rows = results.at(-1)?.rows ?? []
  return { answers: rows.map(row => ({ ...row, token: row.token === null ? null : Number(row.token) })) }
}
