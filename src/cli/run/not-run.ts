import { constants } from 'node:os'
import { AbortedError, FencepostError, LockTimeoutError, LostError } from '../../errors.ts'
import { exitCode } from '../exit-codes.ts'
import { codeOf } from '../report.ts'
import type { Notes } from './notes.ts'

/** Tells why the command was not run, and answers the exit code: never one that would be taken for its own. */
export function notRun(error: unknown, key: string, notes: Notes): number {
  if (!(error instanceof FencepostError)) {
    const [message, trace] = error instanceof Error ? [error.message, error.stack] : [String(error)]
    notes.say('error', { key, message }, trace ?? message)
    return exitCode.unforeseen
  }
  const { code, message } = error
  if (error instanceof AbortedError) {
    const signal = error.cause as NodeJS.Signals
    notes.say('aborted', { key, signal })
    return exitCode.signalled + constants.signals[signal]
  }
  notes.say('error', { key, code, message }, message)
  // What was lost before the command began is a place in line.
  if (error instanceof LockTimeoutError || error instanceof LostError) return exitCode.notObtained
  const told = codeOf(error)
  return told === exitCode.failed ? exitCode.unforeseen : told
}
