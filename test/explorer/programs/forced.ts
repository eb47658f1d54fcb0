import { acquire, at, closeSession, force, guard, heartbeat, tick, token } from '../calls.ts'
import type { Program } from '../program.ts'
import { beatAndGiveBack, inTurn, letGo } from './scripts.ts'

const queued = [acquire('S1', [at('k', 'r11')]), acquire('S2', [at('k', 'r21')])]
const operator = () => inTurn(force(token('k', 101)))

/** A key that is taken from its holder by hand, while that renews, lets go, guards with it, closes, or is cut off. */
export const forced: readonly Program[] = [
  {
    name: 'a key taken by hand meets the heartbeat of its holder, and a waiter when the time is up',
    sessions: { S1: 10, S2: 60 },
    clock: [6],
    before: [...queued, 5],
    actors: [
      { name: 'the operator', script: operator },
      { name: 'A', script: () => beatAndGiveBack('S1', 'k') },
      { name: 'B', script: () => inTurn(tick('S2', at('k', 'r21'))) },
    ],
  },
  {
    name: 'a key taken by hand meets the release of its holder',
    sessions: { S1: 60, S2: 60 },
    before: queued,
    actors: [
      { name: 'the operator', script: () => inTurn(force({ key: 'k' })) },
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
    ],
  },
  {
    name: 'a key taken by hand twice, whose time is up for a waiter and a newcomer',
    sessions: { S1: 10, S2: 60, S3: 60 },
    before: [...queued, 5, force(token('k', 101)), heartbeat('S1'), 6],
    actors: [
      { name: 'the operator', script: operator },
      { name: 'B', script: () => inTurn(tick('S2', at('k', 'r21'))) },
      { name: 'C', script: () => inTurn(acquire('S3', [at('k', 'r31')])), whole: true },
    ],
  },
  {
    name: 'a key taken by hand meets a guard, and a waiter when the time is up',
    sessions: { S1: 10, S2: 60 },
    key: 'k',
    clock: [2],
    before: [...queued, 9],
    actors: [
      { name: 'the operator', script: operator },
      { name: 'the guard', script: () => inTurn(guard(token('k', 101))), whole: true },
      { name: 'B', script: () => inTurn(tick('S2', at('k', 'r21'))) },
    ],
  },
  {
    name: 'a key taken by hand meets the closing of its holder, and another by hand',
    sessions: { S1: 60, S2: 60 },
    before: queued,
    actors: [
      { name: 'the operator', script: operator },
      { name: 'A', script: () => inTurn(closeSession('S1')) },
      { name: 'another', script: () => inTurn(force({ key: 'k' })), whole: true },
    ],
  },
]
