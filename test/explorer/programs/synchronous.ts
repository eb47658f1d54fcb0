import { acquire, at, cancel, release, tick, token } from '../calls.ts'
import type { Edit } from '../instrument/instrument.ts'
import type { Program } from '../program.ts'
import { inTurn, letGo } from './scripts.ts'

/** Nothing else in the protocol asks whether a commit may wait for a standby. */
export const withStandby: readonly Edit[] = [
  { function: 'look', from: "current_setting('synchronous_standby_names') <> ''", to: 'true' },
]

/** A waiter that looks writes, where "you hold" must come from a transaction that wrote; at the end of its tick. */
export const synchronous: readonly Program[] = [
  {
    name: 'a waiter that was served looks, clears away a dead one behind it, and gives up',
    sessions: { S1: 60, S2: 60, S3: 10 },
    before: [
      acquire('S1', [at('k', 'r11')]),
      acquire('S2', [at('k', 'r21')]),
      acquire('S3', [at('j', 'r32')]),
      acquire('S3', [at('k', 'r31')]),
      11,
      acquire('S2', [at('j', 'r22')]),
      release('S1', token('k', 101)),
    ],
    actors: [
      { name: 'A', script: () => inTurn(cancel('S2', at('k', 'r21'))) },
      { name: 'B', script: () => inTurn(tick('S2', at('k', 'r21'))) },
    ],
  },
  {
    name: 'a waiter for two keys looks while one is handed over, and another wants both',
    sessions: { S1: 60, S2: 60, S3: 10, S4: 60 },
    before: [
      acquire('S1', [at('a', 'r11')]),
      acquire('S3', [at('b', 'r31')]),
      acquire('S2', [at('a', 'r21'), at('b', 'r22')]),
      11,
    ],
    actors: [
      { name: 'A', script: () => letGo('S1', token('a', 101)), whole: true },
      { name: 'B', script: () => inTurn(tick('S2', at('a', 'r21'), at('b', 'r22'))) },
      { name: 'C', script: () => inTurn(acquire('S4', [at('a', 'r41'), at('b', 'r42')])) },
    ],
  },
]
