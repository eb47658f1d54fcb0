import { Backoff } from '../database/backoff.ts'
import { CommitUnknownError } from '../errors.ts'
import type { Pinned } from './guard.ts'

export interface ResolveHost {
  /** committed, aborted, in progress; null: it cannot be asked any more. @throws when the database cannot be reached */
  status(transaction: string, boot: string): Promise<string | null>
  /** Ends the backend that is in this transaction, if one is. */
  end(transaction: string): Promise<void>
  /** The same, so many milliseconds and a grace later; the answer takes it back. */
  endAfter(transaction: string, milliseconds: number): () => void
  /** Tells of it when it is still open after {@link warnAfter}; the answer takes that back. */
  tellOf(key: string, transaction: string, boot: string): () => void
}

/** Milliseconds a transaction may be open before it is warned of. */
export const warnAfter = 5_000

/** Milliseconds past its own timeout after which a backend is ended from outside. */
export const grace = 1_000

/**
 * What became of a transaction whose commit was not answered.
 *
 * @throws CommitUnknownError where nobody can say
 */
export async function wasCommitted(
  host: ResolveHost,
  key: string,
  { transaction, boot, milliseconds }: Pinned,
  cause: unknown,
): Promise<boolean> {
  const until = performance.now() + milliseconds + grace
  const backoff = new Backoff(50, 1_000)
  for (;;) {
    const status = await host.status(transaction, boot as string).catch(() => undefined)
    if (status === 'committed') return true
    if (status === 'aborted') return false
    if (status === null || performance.now() > until) throw new CommitUnknownError(key, transaction, cause)
    // The backend may not have noticed that its client is gone.
    if (status === 'in progress') await host.end(transaction).catch(() => {})
    await backoff.wait()
  }
}
