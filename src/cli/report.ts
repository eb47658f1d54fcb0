import { BadOptionError, FencepostError, UnreachableError } from '../errors.ts'
import { exitCode } from './exit-codes.ts'
import { tell } from './output.ts'

/** Tells what went wrong, and answers the exit code. Only for what nobody foresaw is there a stack. */
export function report(error: unknown): number {
  if (!(error instanceof FencepostError)) {
    tell(error instanceof Error ? (error.stack ?? error.message) : String(error))
    return exitCode.failed
  }
  tell(`fencepost: ${error.message}`)
  const { cause } = error
  if (cause instanceof Error && 'hint' in cause && typeof cause.hint === 'string') tell(`hint: ${cause.hint}`)
  if (error instanceof BadOptionError) return exitCode.usage
  return error instanceof UnreachableError ? exitCode.unavailable : exitCode.failed
}
