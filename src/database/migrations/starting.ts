import { setTimeout as pause } from 'node:timers/promises'
import { ReadOnlyServerError, UnreachableError } from '../../errors.ts'
import { codeOf } from './connection.ts'

// What a database says, or a host that is not there yet, in the seconds before it is up.
const starting = new Set([
  ...[
    'ECONNREFUSED',
    'ECONNRESET',
    'EPIPE',
    'ENOENT',
    'ETIMEDOUT',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'ENOTFOUND',
    'EAI_AGAIN',
  ],
  ...['57P01', '57P02', '57P03', '53300'],
])

const firstPause = 100
const longestPause = 2_000

/**
 * Repeats an attempt that fails because the database is still starting, until `wait` milliseconds have passed; the
 * last failure is thrown. Pauses double from 0.1 s up to 2 s and are jittered.
 */
export async function whileStarting<T>(
  wait: number,
  log: (line: string) => void,
  attempt: () => Promise<T>,
): Promise<T> {
  const deadline = performance.now() + wait
  for (let longest = firstPause; ; longest = Math.min(longest * 2, longestPause)) {
    try {
      return await attempt()
    } catch (error) {
      const left = deadline - performance.now()
      if (!isStarting(error) || left <= 0) throw error
      log(`${error.message}; trying again for ${Math.ceil(left / 1000)} s`)
      await pause(Math.min(left, longest * (0.5 + Math.random() / 2)))
    }
  }
}

// A socket that closed in the middle of the greeting carries no code; class 08 is what a pooler says of its server.
function isStarting(error: unknown): error is UnreachableError {
  if (!(error instanceof UnreachableError) || error instanceof ReadOnlyServerError) return false
  const code = codeOf(error.cause)
  return code === undefined || code.startsWith('08') || starting.has(code)
}
