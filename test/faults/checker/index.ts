import { abortsClean } from './aborts.ts'
import { beliefs } from './beliefs.ts'
import { drainedFirst, oneLeader, termsObserved } from './elections.ts'
import { givenBack, nobodyForgotten, nothingLeft, nothingUnhandled, refusedInWords } from './end.ts'
import { deadStaysDead, endedRightly } from './grants.ts'
import type { Rule, Run, Violation } from './history.ts'
import { baseRises, graceKept, incarnationSeen } from './incarnations.ts'
import { inLine, served } from './line.ts'
import { linearizable } from './linear.ts'
import { levelsRise, modesExclude } from './modes.ts'
import { allOrNothing } from './several.ts'
import { ticksOnce } from './ticks.ts'
import { tokensRise, tokensRiseForClients } from './tokens.ts'
import { grantsRecorded, toldFirst } from './told.ts'
import { fenceExact, fenceLetsIn, guardExact, readsGuarded, writesKept } from './writes.ts'

const rules: readonly Rule[] = [
  beliefs,
  modesExclude,
  grantsRecorded,
  toldFirst,
  tokensRise,
  tokensRiseForClients,
  levelsRise,
  inLine,
  served,
  allOrNothing,
  ticksOnce,
  oneLeader,
  drainedFirst,
  termsObserved,
  linearizable,
  endedRightly,
  deadStaysDead,
  guardExact,
  readsGuarded,
  fenceExact,
  fenceLetsIn,
  writesKept,
  abortsClean,
  baseRises,
  incarnationSeen,
  graceKept,
  givenBack,
  nobodyForgotten,
  nothingLeft,
  nothingUnhandled,
  refusedInWords,
]

/** What a run breaks, by time. */
export function check(run: Run): Violation[] {
  return rules.flatMap(rule => rule(run)).sort((a, b) => a.at - b.at)
}
