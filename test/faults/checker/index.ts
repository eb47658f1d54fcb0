import { abortsClean } from './aborts.ts'
import { beliefs, grantsRecorded, toldFirst } from './beliefs.ts'
import { nobodyForgotten, nothingLeft, nothingUnhandled, refusedInWords } from './end.ts'
import { deadStaysDead, endedRightly } from './grants.ts'
import type { Rule, Run, Violation } from './history.ts'
import { baseRises, graceKept, incarnationSeen } from './incarnations.ts'
import { inLine } from './line.ts'
import { linearizable } from './linear.ts'
import { tokensRise, tokensRiseForClients } from './tokens.ts'
import { fenceExact, guardExact, writesKept } from './writes.ts'

const rules: readonly Rule[] = [
  beliefs,
  grantsRecorded,
  toldFirst,
  tokensRise,
  tokensRiseForClients,
  inLine,
  linearizable,
  endedRightly,
  deadStaysDead,
  guardExact,
  fenceExact,
  writesKept,
  abortsClean,
  baseRises,
  incarnationSeen,
  graceKept,
  nobodyForgotten,
  nothingLeft,
  nothingUnhandled,
  refusedInWords,
]

/** What a run breaks, by time. */
export function check(run: Run): Violation[] {
  return rules.flatMap(rule => rule(run)).sort((a, b) => a.at - b.at)
}
