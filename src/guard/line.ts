import { withDeadline } from '../database/deadline.ts'
import { UnreachableError } from '../errors.ts'
import { asTimeout } from './failure.ts'

/** What `lock.transaction` runs in: a client of the user's pool, inside a transaction, until that ends. */
export interface TransactionClient {
  // biome-ignore lint/suspicious/noExplicitAny: the rows' shape is the query's
  query(text: string, values?: unknown[]): Promise<{ rows: any[]; rowCount: number | null }>
}

/** The members of a `pg.PoolClient` that are used. */
export interface PoolClientLike extends TransactionClient {
  readonly connection?: { readonly stream?: { destroy?(): void } }
  release(destroy?: boolean): void
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
}

export interface TransactionPool {
  connect(): Promise<PoolClientLike>
}

const rollbackTimeout = 5_000

/** A client of the pool for one transaction, and whether its connection still stands. */
export class Line {
  readonly client: PoolClientLike
  /** Rejects when the connection breaks, or is given up. */
  readonly breaking: Promise<never>
  /** Rejects when it is given up: the answer that is waited for then need never come. */
  readonly givingUp: Promise<never>
  isGivenUp = false
  #failure: Error | undefined
  #fail: (error: unknown) => void = () => {}
  #giveUp: (error: unknown) => void = () => {}
  readonly #onError = (error: unknown): void => this.broke(error)

  constructor(client: PoolClientLike) {
    this.client = client
    this.breaking = new Promise<never>((_, reject) => {
      this.#fail = reject
    })
    this.givingUp = new Promise<never>((_, reject) => {
      this.#giveUp = reject
    })
    this.breaking.catch(() => {})
    this.givingUp.catch(() => {})
    client.on('error', this.#onError)
  }

  get isBroken(): boolean {
    return this.#failure !== undefined
  }

  /** @throws why it is broken, if it is */
  check(): void {
    if (this.#failure) throw this.#failure
  }

  broke(cause: unknown): void {
    this.#end(
      asTimeout(cause) ?? new UnreachableError('the connection was lost: nothing was written', { cause }),
    )
  }

  /** Nobody waits for its end any more. Where the commit was not sent, it will not be. */
  giveUp(error: Error): void {
    this.isGivenUp = true
    this.#end(error)
    this.#giveUp(error)
  }

  #end(error: Error): void {
    this.#failure ??= error
    this.#fail(error)
  }

  async rollBack(): Promise<void> {
    await withDeadline(this.client.query('rollback'), rollbackTimeout).catch(error => this.broke(error))
  }

  release(): void {
    this.client.removeListener('error', this.#onError)
    // A client that is destroyed may still have an error to tell, and without a listener that ends the process.
    if (this.isBroken) this.client.on('error', () => {})
    this.client.release(this.isBroken)
    // Where nothing is in flight the driver says goodbye, and would wait for ever for what a dead network answers.
    if (this.isBroken) this.client.connection?.stream?.destroy?.()
  }
}
