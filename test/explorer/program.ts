import type { Call, Script } from './calls.ts'
import type { State } from './state.ts'

/** Two or three connections with something to do, and the state in which they begin. */
export interface Program {
  readonly name: string
  /** Seconds to live of each session, by name; they open at second 0. */
  readonly sessions: Readonly<Record<string, number>>
  /** Run one after the other beforehand; a number lets so many seconds pass. Tokens begin at 101, tickets at 1. */
  readonly before?: readonly (Call | number)[]
  readonly actors: readonly Actor[]
  /** Steps of the clock, in seconds: each may come at any moment. */
  readonly clock?: readonly number[]
  /** Tables that no actor changes in any schedule: checked. Reading them is then no reason to stop. */
  readonly quiet?: readonly string[]
  /** The only key that is in play, where there is but one: checked. A row that is locked then concerns one line only. */
  readonly key?: string
  /** Whether a new incarnation may begin. */
  readonly incarnations?: boolean
  /** Whether shared locks or permits are in play: checked. */
  readonly holders?: boolean
  /** Whether there are schedules, or what is done once: checked. */
  readonly schedules?: boolean
  /** Calls that an actor makes, and that were sent before the schedule begins. */
  readonly onTheWay?: readonly Call[]
}

interface Actor {
  readonly name: string
  readonly script: () => Script
  /** Its calls run from beginning to return in one step, as if nothing could come between. */
  readonly whole?: boolean
  /**
   * What the process does, on a new connection, once this one was terminated under it. Without it the process has
   * crashed, and its session with it. `false`: this connection is never terminated.
   */
  readonly killed?: (() => Script) | false
}

/** Tables that nobody changes while the program runs, so that looking at them is no event. */
export function quietTables(program: Program): string[] {
  return [
    ...(program.incarnations ? [] : ['cluster', 'canary']),
    'fences',
    ...(program.holders ? [] : ['holders']),
    ...(program.schedules ? [] : ['schedules', 'schedule_nodes', 'ticks', 'once']),
    ...(program.quiet ?? []),
  ]
}

/** @throws Error where something changed that the program says does not: what was left out then is in doubt. */
export function checkQuiet(program: Program, before: State, now: State): void {
  if (!program.incarnations && before.base !== now.base) throw new Error('explorer: a new incarnation began')
  if (!program.holders && now.holders.length > 0) throw new Error(`explorer: ${program.name}: has holders`)
  if (!program.schedules && now.schedules.length + now.once.length > 0)
    throw new Error(`explorer: ${program.name}: has schedules`)
  if (!program.quiet?.includes('sessions')) return
  const same = JSON.stringify(before.sessions) === JSON.stringify(now.sessions)
  if (!same) throw new Error(`explorer: ${program.name}: sessions is called quiet, and changes`)
}
