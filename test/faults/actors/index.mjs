import { alone } from './alone.mjs'
import { byHand } from './by-hand.mjs'
import { election, fastElection } from './election.mjs'
import { fenced } from './fenced.mjs'
import { guarded } from './guarded.mjs'
import { keeper } from './keeper.mjs'
import { permits } from './permits.mjs'
import { readersWriters } from './readers-writers.mjs'
import { schedule } from './schedule.mjs'
import { several } from './several.mjs'
import { sleeper } from './sleeper.mjs'
import { tries } from './tries.mjs'
import { turns } from './turns.mjs'

/**
 * What runs in every worker, each in so many copies. Later kinds of lock add theirs here.
 *
 * @type {{ name: string, copies: number, plants: string[], start(context: any): Promise<void> }[]}
 */
export const actors = [
  guarded,
  fenced,
  tries,
  turns,
  alone,
  byHand,
  sleeper,
  readersWriters,
  keeper,
  permits,
  several,
  schedule,
  election,
  fastElection,
]
