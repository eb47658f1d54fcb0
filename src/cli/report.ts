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
import { print, redact, tell } from './output.ts'

/** Whether one call asks for JSON. Not what commander has read: it reads no further than to what is wrong. */
export function asksForJson(args: readonly string[]): boolean {
  const end = args.indexOf('--')
  return args.slice(0, end < 0 ? args.length : end).includes('--json')
}

/**
 * Tells what went wrong, and answers the exit code. Only for what nobody foresaw is there a stack.
 *
 * @param json on stdout, as one line of JSON, in the place of the answer
 */
export function report(error: unknown, json: boolean): number {
  if (!(error instanceof FencepostError)) {
    const [message, trace] = error instanceof Error ? [error.message, error.stack] : [String(error)]
    if (json) printError({ message })
    tell(trace ?? message)
    return exitCode.failed
  }
  const { code, message } = error
  const hint = hintOf(error)
  if (json) printError({ code, message, hint })
  else {
    tell(`fencepost: ${message}`)
    if (hint !== undefined) tell(`hint: ${hint}`)
  }
  return codeOf(error)
}

interface Told {
  /** None for what nobody foresaw. */
  readonly code?: string
  readonly message: string
  readonly hint?: string | undefined
}

/** One line of JSON on stdout. */
export function printError(error: Told): void {
  print(JSON.stringify({ error: { ...error, message: redact(error.message) } }))
}

/** What the database advises. */
function hintOf({ cause }: FencepostError): string | undefined {
  return cause instanceof Error && 'hint' in cause && typeof cause.hint === 'string' ? cause.hint : undefined
}

/** The exit code for an error that is told. */
export function codeOf(error: FencepostError): number {
  if (error instanceof BadOptionError || error instanceof BadKeyError) return exitCode.usage
  if (error instanceof NotMigratedError || error instanceof NotPermittedError) return exitCode.misconfigured
  if (error instanceof LimitMismatchError) return exitCode.misconfigured
  return error instanceof UnreachableError ? exitCode.unavailable : exitCode.failed
}
