import { acquire, at, closeSession, heartbeat, raiseGeneration, tick, token } from '../calls.ts'
import type { Program } from '../program.ts'
import { inTurn, letGo, takeAndRelease } from './scripts.ts'

const held = [acquire('S1', [at('k', 'r11')])]
const queued = [...held, acquire('S2', [at('k', 'r21')])]

/** Sessions that expire, are renewed, closed or fenced off, while something is granted to them or taken from them. */
export const sessions: readonly Program[] = [
  {
    name: 'a heartbeat at the last moment meets a newcomer',
    sessions: { S1: 10, S2: 60 },
    clock: [2],
    before: [...held, 9],
    actors: [
      { name: 'A', script: () => inTurn(heartbeat('S1')) },
      { name: 'B', script: () => inTurn(acquire('S2', [at('k', 'r21')])) },
    ],
  },
  {
    name: "a heartbeat at the last moment meets a waiter's tick",
    sessions: { S1: 10, S2: 60 },
    clock: [2],
    before: [...queued, 9],
    actors: [
      { name: 'A', script: () => inTurn(heartbeat('S1')) },
      { name: 'B', script: () => inTurn(tick('S2', at('k', 'r21'))) },
    ],
  },
  {
    name: 'a try meets a holder that may have expired',
    sessions: { S1: 10, S2: 60 },
    clock: [2],
    before: [...held, 9],
    actors: [
      { name: 'A', script: () => inTurn(heartbeat('S1')) },
      {
        name: 'B',
        script: () =>
          inTurn(
            acquire('S2', [at('k', 'r21')], { wait: false }),
            acquire('S2', [at('k', 'r22')], { wait: false }),
          ),
      },
    ],
  },
  {
    name: 'an acquire meets the reaping of its own session',
    sessions: { S1: 10, S2: 60 },
    clock: [2],
    before: [9],
    actors: [
      { name: 'A', script: () => inTurn(acquire('S1', [at('k', 'r11')])) },
      { name: 'B', script: () => inTurn(tick('S2')) },
    ],
  },
  {
    name: 'a hand-over meets the reaping of the head of the line',
    sessions: { S1: 60, S2: 10, S3: 60 },
    clock: [2],
    before: [...queued, acquire('S3', [at('k', 'r31')]), 9],
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => inTurn(tick('S3', at('k', 'r31'))) },
    ],
  },
  {
    name: 'a hand-over meets the closing of the head of the line',
    sessions: { S1: 60, S2: 60, S3: 60 },
    before: [...queued, acquire('S3', [at('k', 'r31')])],
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => inTurn(closeSession('S2')) },
    ],
  },
  {
    name: 'a hand-over meets the closing of the head and a newcomer',
    sessions: { S1: 60, S2: 60, S3: 60 },
    before: queued,
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => inTurn(closeSession('S2')) },
      { name: 'C', script: () => inTurn(acquire('S3', [at('k', 'r31')])), whole: true },
    ],
  },
  {
    name: 'a hand-over meets the raising of the generation of the head',
    sessions: { S1: 60, S2: 60 },
    before: queued,
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => inTurn(raiseGeneration('S2', 1)), killed: false },
    ],
  },
  {
    name: 'a session closes while it acquires and lets go',
    sessions: { S1: 60, S2: 60 },
    before: [acquire('S1', [at('j', 'r12')])],
    actors: [
      { name: 'A', script: () => takeAndRelease('S1', 'k', 'r11'), killed: false },
      { name: 'B', script: () => inTurn(closeSession('S1')), killed: false },
    ],
  },
  {
    name: 'two reapers, each with a ticket of the session that the other reaps',
    sessions: { S1: 10, S2: 10, S3: 60, S4: 60 },
    clock: [2],
    before: [
      acquire('S1', [at('a', 'r11')]),
      acquire('S2', [at('b', 'r21')]),
      acquire('S2', [at('a', 'r22')]),
      acquire('S1', [at('b', 'r12')]),
      acquire('S3', [at('a', 'r31')]),
      acquire('S4', [at('b', 'r41')]),
      9,
    ],
    actors: [
      { name: 'A', script: () => inTurn(tick('S3', at('a', 'r31'))) },
      { name: 'B', script: () => inTurn(tick('S4', at('b', 'r41'))) },
    ],
  },
  {
    name: 'a session is reaped while it closes and its key is wanted',
    sessions: { S1: 10, S2: 60 },
    clock: [2],
    before: [...queued, 9],
    actors: [
      { name: 'A', script: () => inTurn(closeSession('S1')) },
      { name: 'B', script: () => inTurn(tick('S2', at('k', 'r21'))) },
    ],
  },
  {
    name: 'the heartbeat of a waiter meets its hand-over',
    sessions: { S1: 60, S2: 10 },
    clock: [2],
    before: [...queued, 9],
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => inTurn(heartbeat('S2'), tick('S2', at('k', 'r21'))) },
    ],
  },
  {
    name: 'two waiters tick when the holder has expired',
    sessions: { S1: 10, S2: 60, S3: 60 },
    key: 'k',
    before: [...queued, acquire('S3', [at('k', 'r31')]), 11],
    actors: [
      { name: 'A', script: () => inTurn(tick('S2', at('k', 'r21'))) },
      { name: 'B', script: () => inTurn(tick('S3', at('k', 'r31'))) },
    ],
  },
  {
    name: 'a hand-over meets the raising of the generation of the head, and a newcomer',
    sessions: { S1: 60, S2: 60, S3: 60 },
    key: 'k',
    before: queued,
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => inTurn(raiseGeneration('S2', 1)), killed: false },
      { name: 'C', script: () => inTurn(acquire('S3', [at('k', 'r31')])), whole: true },
    ],
  },
]
