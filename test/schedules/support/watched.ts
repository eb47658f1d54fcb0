export interface Watched<T> {
  readonly promise: Promise<T>
  state: 'open' | 'answered' | 'failed'
  error: unknown
  /** When it was decided, by performance.now(). */
  at: number
}

/** A promise whose state can be looked at without waiting for it, and whose failure is no unhandled rejection. */
export function watched<T>(promise: Promise<T>): Watched<T> {
  const seen: Watched<T> = { promise, state: 'open', error: undefined, at: Number.NaN }
  promise.then(
    () => Object.assign(seen, { state: 'answered', at: performance.now() }),
    error => Object.assign(seen, { state: 'failed', error, at: performance.now() }),
  )
  return seen
}
