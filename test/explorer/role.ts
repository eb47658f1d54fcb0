import type { Call, Script } from './calls.ts'
import { type Footprint, nothing } from './instrument/footprint.ts'

/** An actor in one schedule. */
export interface Role {
  script: Script
  /** What it is at, or will do next. */
  call: Call | undefined
  /** By the clock, when the call was sent. */
  sentAt: number
  /** How many calls it has begun. */
  calls: number
  /** What its open transaction has touched so far. */
  touched: Footprint
  over: boolean
}

export function start(script: Script): Role {
  const first = script.next({ answers: [] })
  const call = first.done ? undefined : first.value
  return { script, call, sentAt: 0, calls: 0, touched: nothing, over: first.done === true }
}

/**
 * Whether it makes a difference when the call is sent, apart from when its statements run. That it gives something up
 * is itself an event: from its sending on the process does not count on what it held.
 */
export function isNoticed(call: Call | undefined): boolean {
  if (call === undefined) return false
  return (
    ['release', 'release_and_acquire', 'cancel', 'close_session'].includes(call.function) ||
    call.isolation !== 'read committed'
  )
}

/** Whether it is refused where its token is held no more. */
export const mayBeRefused = (call: Call | undefined): boolean =>
  call !== undefined && ['assert_held', 'take_tick', 'end_tick', 'record_once'].includes(call.function)

/** Whether it runs in a transaction of the user's, for which nobody else may wait. */
export const isGuard = (call: Call | undefined): boolean =>
  call !== undefined && ['assert_held', 'pin'].includes(call.function)
