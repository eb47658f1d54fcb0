import { explain, messageOf, sqlState } from '../database/failure.ts'
import {
  type FencepostError,
  ReadOnlyTransactionError,
  TransactionAbortedError,
  TransactionTimeoutError,
} from '../errors.ts'

/** The SQLSTATE of a driver's error, also where a query builder has wrapped it. */
export function stateOf(error: unknown): string | undefined {
  for (let each = error, depth = 0; each != null && depth < 5; depth += 1) {
    const state = sqlState(each) ?? wrappedState(each)
    if (state !== undefined) return state
    each = (each as { cause?: unknown }).cause
  }
  return undefined
}

// Prisma gives the state as `meta.code`, or under the error of its driver adapter.
function wrappedState(error: unknown): string | undefined {
  const { meta, originalCode } = error as {
    meta?: { code?: unknown; driverAdapterError?: { cause?: { originalCode?: unknown } } }
    originalCode?: unknown
  }
  const code = meta?.code ?? meta?.driverAdapterError?.cause?.originalCode ?? originalCode
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined
}

/** What the caller gets for a failure of a statement of ours in a transaction of his. */
export function explainTransaction(error: unknown, schema: string): FencepostError {
  const cause = error
  switch (stateOf(error)) {
    case '25P02':
      return new TransactionAbortedError('the transaction has failed already: roll it back', { cause })
    case '25006':
      return new ReadOnlyTransactionError(
        `it cannot be had in a read-only transaction or on a standby: ${messageOf(error)}`,
        { cause },
      )
  }
  return asTimeout(error) ?? explain(error, schema)
}

/** The server has ended a transaction that took too long. */
export function asTimeout(error: unknown): TransactionTimeoutError | undefined {
  if (!/^(25P03|25P04)$/.test(stateOf(error) ?? '')) return undefined
  return new TransactionTimeoutError('the transaction took longer than it may, and was ended', {
    cause: error,
  })
}
