import {
  BadKeyError,
  BadOptionError,
  FencepostError,
  LimitMismatchError,
  NotMigratedError,
  NotPermittedError,
  UnreachableError,
} from '../errors.ts'
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
  return codeOf(error)
}

/** The exit code for an error that is told. */
export function codeOf(error: FencepostError): number {
  if (error instanceof BadOptionError || error instanceof BadKeyError) return exitCode.usage
  if (error instanceof NotMigratedError || error instanceof NotPermittedError) return exitCode.misconfigured
  if (error instanceof LimitMismatchError) return exitCode.misconfigured
  return error instanceof UnreachableError ? exitCode.unavailable : exitCode.failed
}
