import {
  acquire,
  at,
  cancel,
  closeSession,
  downgrade,
  guard,
  heartbeat,
  permits,
  pin,
  raiseGeneration,
  resize,
  shared,
  tick,
  token,
} from '../calls.ts'
import type { Program } from '../program.ts'
import { inTurn, letGo, takeAndRelease } from './scripts.ts'

const sessions = { S1: 60, S2: 60, S3: 60 }
const quiet = ['sessions']
const holders = true
const reads = (session: string, request: string) => acquire(session, [at('k', request)], { terms: shared })
const writes = (session: string, request: string) => acquire(session, [at('k', request)])
const takes = (session: string, request: string, n: number, wait = true) =>
  acquire(session, [at('k', request)], { wait, terms: permits(n, 3) })

/** Several hold one key at once. The first number goes to the level: the first reader has 102. */
export const readers: readonly Program[] = [
  {
    name: 'two readers take a free key and let go',
    sessions,
    quiet,
    holders,
    actors: [
      { name: 'A', script: () => takeAndRelease('S1', 'k', 'r11', { terms: shared }) },
      { name: 'B', script: () => takeAndRelease('S2', 'k', 'r21', { terms: shared }) },
    ],
  },
  {
    name: 'a reader and a writer take a free key and let go',
    sessions,
    quiet,
    holders,
    actors: [
      { name: 'A', script: () => takeAndRelease('S1', 'k', 'r11', { terms: shared }) },
      { name: 'B', script: () => takeAndRelease('S2', 'k', 'r21') },
    ],
  },
  {
    name: 'the last reader lets go while a writer waits, and another reader comes',
    sessions,
    quiet,
    holders,
    before: [reads('S1', 'r11'), writes('S2', 'r21')],
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 102)) },
      { name: 'B', script: () => inTurn(tick('S2', at('k', 'r21'))) },
      { name: 'C', script: () => inTurn(reads('S3', 'r31')) },
    ],
  },
  {
    name: 'the last two readers let go while a writer waits',
    sessions,
    quiet,
    holders,
    before: [reads('S1', 'r11'), reads('S2', 'r21'), writes('S3', 'r31')],
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 102)) },
      { name: 'B', script: () => letGo('S2', token('k', 103)) },
      { name: 'C', script: () => inTurn(tick('S3', at('k', 'r31'))) },
    ],
  },
  {
    name: 'a writer lets go to two readers, one of whom gives up',
    sessions,
    quiet,
    holders,
    before: [writes('S1', 'r11'), reads('S2', 'r21'), reads('S3', 'r31')],
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => inTurn(cancel('S2', at('k', 'r21'))) },
      { name: 'C', script: () => inTurn(tick('S3', at('k', 'r31'))) },
    ],
  },
  {
    name: 'the writer between two readers gives up',
    sessions,
    quiet,
    holders,
    before: [reads('S1', 'r11'), writes('S2', 'r21'), reads('S3', 'r31')],
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 102)) },
      { name: 'B', script: () => inTurn(cancel('S2', at('k', 'r21'))) },
      { name: 'C', script: () => inTurn(tick('S3', at('k', 'r31'))) },
    ],
  },
  {
    name: 'the first reader in line cannot be served at this moment',
    sessions,
    holders,
    before: [writes('S1', 'r11'), reads('S2', 'r21'), reads('S3', 'r31')],
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)), killed: false },
      {
        name: 'B',
        script: () => inTurn(raiseGeneration('S2', 1)),
        killed: false,
      },
      { name: 'C', script: () => inTurn(tick('S3', at('k', 'r31'))), killed: false },
    ],
  },
  {
    name: 'the writer between two readers dies',
    sessions: { S1: 60, S2: 10, S3: 60 },
    holders,
    clock: [2],
    before: [reads('S1', 'r11'), writes('S2', 'r21'), reads('S3', 'r31'), 9],
    actors: [
      { name: 'A', script: () => inTurn(tick('S3', at('k', 'r31'))) },
      { name: 'B', script: () => inTurn(heartbeat('S2')) },
    ],
  },
  {
    name: 'a reader dies beside another while a writer waits',
    sessions: { S1: 10, S2: 60, S3: 60 },
    holders,
    clock: [2],
    before: [reads('S1', 'r11'), reads('S2', 'r21'), writes('S3', 'r31'), 9],
    actors: [
      { name: 'A', script: () => inTurn(heartbeat('S1')) },
      { name: 'B', script: () => letGo('S2', token('k', 103)), whole: true },
      { name: 'C', script: () => inTurn(tick('S3', at('k', 'r31'))) },
    ],
  },
  {
    name: 'a reader closes while a writer gives up',
    sessions,
    holders,
    before: [reads('S1', 'r11'), writes('S2', 'r21'), reads('S3', 'r31')],
    actors: [
      { name: 'A', script: () => inTurn(closeSession('S1')) },
      { name: 'B', script: () => inTurn(cancel('S2', at('k', 'r21'))) },
    ],
  },
  {
    name: 'a downgrade meets a reader in line who gives up, and one who comes',
    sessions,
    quiet,
    holders,
    before: [writes('S1', 'r11'), reads('S2', 'r21')],
    actors: [
      { name: 'A', script: () => inTurn(downgrade('S1', token('k', 101))) },
      { name: 'B', script: () => inTurn(cancel('S2', at('k', 'r21'))) },
      { name: 'C', script: () => inTurn(reads('S3', 'r31')) },
    ],
  },
  {
    name: 'a downgrade meets a guard',
    sessions,
    quiet,
    holders,
    before: [writes('S1', 'r11'), reads('S2', 'r21')],
    actors: [
      { name: 'the guard', script: () => inTurn(guard(token('k', 101))) },
      {
        name: 'A',
        script: function* () {
          yield downgrade('S1', token('k', 101))
          yield* letGo('S1', token('k', 101))
        },
      },
    ],
  },
  {
    name: 'a guard of one reader meets its release, and a writer',
    sessions,
    quiet,
    holders,
    before: [reads('S1', 'r11'), writes('S2', 'r21')],
    actors: [
      { name: 'the guard', script: () => inTurn(guard(token('k', 102))) },
      { name: 'A', script: () => letGo('S1', token('k', 102)) },
      { name: 'B', script: () => inTurn(tick('S2', at('k', 'r21'))) },
    ],
  },
  {
    name: 'a guard of one reader outlives its session',
    sessions: { S1: 10, S2: 60 },
    holders,
    clock: [2],
    before: [reads('S1', 'r11'), writes('S2', 'r21'), 9],
    actors: [
      { name: 'the guard', script: () => inTurn(guard(token('k', 102))) },
      { name: 'B', script: () => inTurn(tick('S2', at('k', 'r21'))) },
    ],
  },
  {
    name: 'a guard comes too late for a key that goes to readers, and stays',
    sessions,
    quiet,
    holders,
    before: [writes('S1', 'r11'), reads('S2', 'r21'), writes('S3', 'r31')],
    actors: [
      { name: 'the guard', script: () => inTurn(pin(token('k', 101))) },
      { name: 'A', script: () => letGo('S1', token('k', 101)), whole: true },
      { name: 'B', script: () => letGo('S2', token('k', 102)) },
    ],
  },
  {
    name: 'permits come back while a heavy request waits, and a light one tries',
    sessions,
    quiet,
    holders,
    before: [takes('S1', 'r11', 2), takes('S2', 'r21', 2)],
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 102)) },
      { name: 'B', script: () => inTurn(takes('S3', 'r31', 1, false)) },
      { name: 'C', script: () => inTurn(cancel('S2', at('k', 'r21'))) },
    ],
  },
  {
    name: 'a semaphore shrinks while permits come back and are asked for',
    sessions,
    quiet,
    holders,
    before: [takes('S1', 'r11', 2), takes('S2', 'r21', 2)],
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 102)) },
      { name: 'B', script: () => inTurn(resize('S3', 'k', 1)) },
      { name: 'C', script: () => inTurn(takes('S3', 'r31', 1)) },
    ],
  },
]
