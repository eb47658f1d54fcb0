import { acquire, at, cancel, closeSession, tick, token } from '../calls.ts'
import type { Program } from '../program.ts'
import { inTurn, letGo } from './scripts.ts'

const sessions = { S1: 60, S2: 60, S3: 60 }
const held = [acquire('S1', [at('a', 'r11'), at('b', 'r12')])]
const both = (session: string, n: number) => acquire(session, [at('b', `r${n}2`), at('a', `r${n}1`)])

/** Several keys in one call: nobody may wait in a circle. */
export const batches: readonly Program[] = [
  {
    name: 'two take the same two keys',
    sessions,
    quiet: ['sessions'],
    actors: [
      { name: 'A', script: () => inTurn(acquire('S1', [at('a', 'r11'), at('b', 'r12')])) },
      { name: 'B', script: () => inTurn(both('S2', 2)) },
    ],
  },
  {
    name: 'a release of two keys meets an enqueue for both',
    sessions,
    quiet: ['sessions'],
    before: held,
    actors: [
      { name: 'A', script: () => letGo('S1', token('a', 101), token('b', 102)) },
      { name: 'B', script: () => inTurn(both('S2', 2)) },
    ],
  },
  {
    name: 'a release of two keys, one of which is waited for, meets an enqueue for both',
    sessions,
    quiet: ['sessions'],
    before: [...held, acquire('S2', [at('b', 'r22')])],
    actors: [
      { name: 'A', script: () => letGo('S1', token('a', 101), token('b', 102)) },
      { name: 'B', script: () => inTurn(both('S3', 3)) },
    ],
  },
  {
    name: 'a release of two keys meets a cancel of both',
    sessions,
    quiet: ['sessions'],
    before: [...held, both('S2', 2)],
    actors: [
      { name: 'A', script: () => letGo('S1', token('b', 102), token('a', 101)) },
      { name: 'B', script: () => inTurn(cancel('S2', at('b', 'r22'), at('a', 'r21'))) },
    ],
  },
  {
    name: 'two holders let go while two others want the key of the other',
    sessions: { ...sessions, S4: 60 },
    quiet: ['sessions'],
    before: [acquire('S1', [at('a', 'r11')]), acquire('S2', [at('b', 'r22')])],
    actors: [
      { name: 'A', script: () => inTurn(both('S3', 3)) },
      { name: 'B', script: () => letGo('S1', token('a', 101)) },
      { name: 'C', script: () => letGo('S2', token('b', 102)) },
    ],
  },
  {
    name: 'a session with two keys closes, and a waiter for both ticks',
    sessions,
    before: [...held, both('S2', 2)],
    actors: [
      { name: 'A', script: () => inTurn(closeSession('S1')) },
      { name: 'B', script: () => inTurn(tick('S2', at('a', 'r21'), at('b', 'r22'))) },
    ],
  },
  {
    name: 'two sessions with each a key, and a ticket for that of the other, close',
    sessions,
    before: [
      acquire('S1', [at('a', 'r11')]),
      acquire('S2', [at('b', 'r22')]),
      acquire('S1', [at('b', 'r12')]),
      acquire('S2', [at('a', 'r21')]),
    ],
    actors: [
      { name: 'A', script: () => inTurn(closeSession('S1')), killed: false },
      { name: 'B', script: () => inTurn(closeSession('S2')), killed: false },
    ],
  },
]
