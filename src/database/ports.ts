/** The few members of `pg` that are used, so that no version of it is tied to ours. */

export interface RowsResult {
  readonly rows: readonly unknown[]
}

/** Anything that runs one statement with parameters. */
export interface Queryable {
  query(text: string, values?: unknown[]): PromiseLike<RowsResult>
}

/** A `pg.Pool`. Fencepost reads its options and opens connections of its own; it takes none of the pool's. */
export interface PoolLike {
  readonly options: object
}

export interface ClientLike {
  /** The process of the server that greeted this connection, as the driver was told. */
  readonly processID?: number | null
  connect(): Promise<unknown>
  query(config: object): Promise<RowsResult>
  end(): Promise<void>
  unref?(): void
  // biome-ignore lint/suspicious/noExplicitAny: the listener's arguments differ by event, as in node:events
  on(event: string, listener: (...values: any[]) => void): unknown
}

export type ClientConstructor = new (config: object) => ClientLike
