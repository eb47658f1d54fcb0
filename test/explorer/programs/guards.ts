import { acquire, at, guard, heartbeat, tick, token } from '../calls.ts'
import type { Program } from '../program.ts'
import { inTurn, letGo } from './scripts.ts'

const held = [acquire('S1', [at('k', 'r11')])]
const queued = [...held, acquire('S2', [at('k', 'r21')])]
const pin = () => inTurn(guard(token('k', 101)))
const pinAtSnapshot = () => inTurn(guard(token('k', 101), 'repeatable read'))

/** A transaction of the holder's that pins the grant, while it is given up, taken or wanted. */
export const guards: readonly Program[] = [
  {
    name: 'a guard meets a release that hands over',
    sessions: { S1: 60, S2: 60 },
    key: 'k',
    quiet: ['sessions'],
    before: queued,
    actors: [
      { name: 'the guard', script: pin },
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => inTurn(tick('S2', at('k', 'r21'))) },
    ],
  },
  {
    name: 'a guard meets a release that nobody waits for, and a newcomer',
    sessions: { S1: 60, S2: 60 },
    quiet: ['sessions'],
    before: held,
    actors: [
      { name: 'the guard', script: pin },
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => inTurn(acquire('S2', [at('k', 'r21')])) },
    ],
  },
  {
    name: 'a guard at a snapshot meets a release that hands over',
    sessions: { S1: 60, S2: 60 },
    key: 'k',
    quiet: ['sessions'],
    before: queued,
    actors: [
      { name: 'the guard', script: pinAtSnapshot },
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
    ],
  },
  {
    name: 'two guards meet an enqueue and a release',
    sessions: { S1: 60, S2: 60 },
    key: 'k',
    quiet: ['sessions'],
    before: held,
    actors: [
      { name: 'the guard', script: pinAtSnapshot },
      { name: 'B', script: () => inTurn(acquire('S2', [at('k', 'r21')])), whole: true },
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'another guard', script: pin, whole: true },
    ],
  },
  {
    name: 'a guard outlives its session',
    sessions: { S1: 10, S2: 60 },
    key: 'k',
    clock: [2],
    before: [...queued, 9],
    actors: [
      { name: 'the guard', script: pin },
      { name: 'B', script: () => inTurn(tick('S2', at('k', 'r21'))) },
    ],
  },
  {
    name: 'a guard, a heartbeat and a newcomer about the last moment',
    sessions: { S1: 10, S2: 60 },
    key: 'k',
    clock: [2],
    before: [...held, 9],
    actors: [
      { name: 'the guard', script: pin, whole: true },
      { name: 'A', script: () => inTurn(heartbeat('S1')), whole: true },
      { name: 'B', script: () => inTurn(acquire('S2', [at('k', 'r21')])) },
    ],
  },
]
