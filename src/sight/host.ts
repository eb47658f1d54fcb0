import type { Witness } from '../database/answers.ts'
import { explain, sqlState } from '../database/failure.ts'
import type { Wire } from '../database/lane.ts'
import type { SightCalls } from '../database/sight-calls.ts'
import { ClosedError, type FencepostError, NotPermittedError } from '../errors.ts'
import { whileAlive } from '../keep-alive.ts'
import type { Session } from '../session/session.ts'

/** What people's calls need of one client. */
export interface SightOptions {
  readonly schema: string
  readonly calls: SightCalls
  readonly wire: Wire
  /** Milliseconds. */
  readonly callTimeout: number
  /** What this client calls itself, for `events`. */
  readonly owner: string
  isClosed(): boolean
  readonly roads: { readonly waking: 'listening' | 'polling' | 'connecting'; readonly connections: number }
  sessions(): readonly Session[]
  witness(): Witness
  /** A key under the client's namespace. @throws BadKeyError */
  fullKey(key: string): string
  /** Tells the next in line, after the commit. */
  hint(channel: string | null, key: string | null): void
}

type Call<T> = (on: { readonly wire: Wire; readonly timeout: number }) => Promise<T>

/** How what people ask for is asked, and what they are told where it fails. */
export class SightHost {
  readonly calls: SightCalls
  readonly owner: string
  readonly witness: () => Witness
  readonly fullKey: (key: string) => string
  readonly hint: (channel: string | null, key: string | null) => void
  readonly roads: SightOptions['roads']
  readonly sessions: () => readonly Session[]
  readonly #options: SightOptions

  constructor(options: SightOptions) {
    this.#options = options
    this.calls = options.calls
    this.owner = options.owner
    this.witness = () => options.witness()
    this.fullKey = key => options.fullKey(key)
    this.roads = options.roads
    this.sessions = () => options.sessions()
    this.hint = (channel, key) => options.hint(channel, key)
  }

  /** What every role may ask. @throws ClosedError, UnreachableError, NotMigratedError, NotPermittedError, DatabaseError */
  async ask<T>(call: Call<T>): Promise<T> {
    return await this.#run(call, error => explain(error, this.#options.schema))
  }

  /** What takes the operator's role. @throws as `ask` */
  async operate<T>(call: Call<T>): Promise<T> {
    return await this.#run(call, error => this.#explainToOperator(error))
  }

  async #run<T>(call: Call<T>, explained: (error: unknown) => FencepostError): Promise<T> {
    const { wire, callTimeout: timeout, isClosed } = this.#options
    if (isClosed()) throw new ClosedError('the client is closed')
    try {
      return await whileAlive(call({ wire, timeout }))
    } catch (error) {
      throw explained(error)
    }
  }

  #explainToOperator(error: unknown): FencepostError {
    if (sqlState(error) !== '42501') return explain(error, this.#options.schema)
    return new NotPermittedError(
      `${(error as Error).message}: it takes the operator's role, "fencepost migrate --grant-operator ROLE"`,
      { cause: error },
    )
  }
}
