import {
  acquire,
  at,
  cancel,
  closeSession,
  guard,
  heartbeat,
  release,
  releaseAndAcquire,
  tick,
  token,
  turn,
} from '../calls.ts'
import type { Program } from '../program.ts'
import { inTurn, letGo, settle } from './scripts.ts'

const sessions = { S1: 60, S2: 60, S3: 60 }
const queued = [
  acquire('S1', [at('k', 'r11')]),
  acquire('S2', [at('k', 'r21'), at('k', 'r22')]),
  acquire('S3', [at('k', 'r31')]),
]
/** S2 has k for r21 under 105, and in advance for r22 under 106. */
const running = [...queued, release('S1', token('k', 101))]

/** The same, with nobody else in line: under 104 and 105. */
const alone = [...queued.slice(0, 2), release('S1', token('k', 101))]
const anew = releaseAndAcquire('S2', token('k', 105), [at('k', 'r23'), at('k', 'r24')])

/** A grant that covers several requests of one process. */
export const runs: readonly Program[] = [
  {
    name: 'a run begins while who follows in it gives up',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: queued,
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => inTurn(cancel('S2', at('k', 'r22'))) },
    ],
  },
  {
    name: 'a run begins while its first gives up, and its process looks',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: queued,
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => inTurn(cancel('S2', at('k', 'r21'))) },
      { name: 'B too', script: () => inTurn(tick('S2', at('k', 'r21'), at('k', 'r22'))) },
    ],
  },
  {
    name: 'a run begins while another of its process comes',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: queued.slice(0, 2),
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => inTurn(acquire('S2', [at('k', 'r23')])) },
    ],
  },
  {
    name: 'a run ends before its last, who gives up',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: running,
    actors: [
      { name: 'B', script: () => letGo('S2', token('k', 105)) },
      { name: 'B too', script: () => inTurn(cancel('S2', at('k', 'r22'))) },
      { name: 'C', script: () => inTurn(tick('S3', at('k', 'r31'))) },
    ],
  },
  {
    name: 'a run that was passed on ends, and once more, while its first is given up late',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: running,
    actors: [
      { name: 'B', script: () => letGo('S2', token('k', 106)) },
      { name: 'B again', script: () => inTurn(release('S2', token('k', 106))) },
      { name: 'B too', script: () => inTurn(cancel('S2', at('k', 'r21'))) },
    ],
  },
  {
    name: 'a turn is told while the run ends',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: running,
    actors: [
      { name: 'B', script: () => inTurn(turn('S2', token('k', 106))) },
      { name: 'B too', script: () => letGo('S2', token('k', 106)) },
      { name: 'C', script: () => inTurn(acquire('S3', [at('k', 'r32')])) },
    ],
  },
  {
    name: 'a turn is told while who was first is given up late, and its process looks',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: running,
    actors: [
      { name: 'B', script: () => inTurn(turn('S2', token('k', 106))) },
      { name: 'B too', script: () => inTurn(cancel('S2', at('k', 'r21'))) },
      { name: 'B looks', script: () => inTurn(tick('S2', at('k', 'r22'))) },
    ],
  },
  {
    name: 'a turn is told under a guard, and of a session that closes',
    sessions,
    key: 'k',
    before: running,
    actors: [
      { name: 'the guard', script: () => inTurn(guard(token('k', 106), 'repeatable read')) },
      { name: 'B', script: () => inTurn(turn('S2', token('k', 106))) },
      { name: 'B too', script: () => inTurn(closeSession('S2')) },
    ],
  },
  {
    name: 'all of a run give up',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: running,
    actors: [
      { name: 'B', script: () => inTurn(cancel('S2', at('k', 'r21'))) },
      { name: 'B too', script: () => inTurn(cancel('S2', at('k', 'r22'))) },
      { name: 'C', script: () => inTurn(acquire('S3', [at('k', 'r32')])) },
    ],
  },
  {
    name: 'a guard of who follows meets the end of the run',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: running,
    actors: [
      { name: 'the guard', script: () => inTurn(guard(token('k', 106), 'repeatable read')) },
      { name: 'B', script: () => letGo('S2', token('k', 106)) },
    ],
  },
  {
    name: 'a guard of the first meets the end of its turn',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: running,
    actors: [
      { name: 'the guard', script: () => inTurn(guard(token('k', 105))) },
      { name: 'B', script: () => letGo('S2', token('k', 105)) },
      { name: 'B too', script: () => inTurn(tick('S2', at('k', 'r22'))) },
    ],
  },
  {
    name: 'a run at the last moment of its session',
    sessions: { S1: 60, S2: 10, S3: 60 },
    key: 'k',
    clock: [2],
    before: [...running, 9],
    actors: [
      { name: 'B', script: () => inTurn(heartbeat('S2')) },
      { name: 'C', script: () => inTurn(tick('S3', at('k', 'r31'))) },
    ],
  },
  {
    name: 'a run whose session closes while its turn ends',
    sessions,
    key: 'k',
    before: running,
    actors: [
      { name: 'B', script: () => letGo('S2', token('k', 105)) },
      { name: 'B too', script: () => inTurn(closeSession('S2')) },
    ],
  },
  {
    name: 'a run is begun anew while another comes',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: alone,
    actors: [
      { name: 'B', script: () => inTurn(anew) },
      { name: 'C', script: () => inTurn(acquire('S3', [at('k', 'r31')])) },
    ],
  },
  {
    name: 'a run is begun anew behind who is in line and gives up',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: running,
    actors: [
      {
        name: 'B',
        script: () => inTurn(releaseAndAcquire('S2', token('k', 106), [at('k', 'r23'), at('k', 'r24')])),
      },
      { name: 'C', script: () => inTurn(cancel('S3', at('k', 'r31'))) },
    ],
  },
  {
    name: 'a run is begun anew in a call that is taken for lost, and given up',
    sessions,
    key: 'k',
    before: alone,
    actors: [
      { name: 'B', script: () => inTurn(anew) },
      { name: 'B too', script: () => settle('S2', 'k', 'r23') },
    ],
  },
  {
    name: 'a run is begun anew in a call that is taken for lost, and ended once more',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: alone,
    actors: [
      { name: 'B', script: () => inTurn(anew) },
      { name: 'B again', script: () => inTurn(release('S2', token('k', 105))) },
      { name: 'C', script: () => inTurn(acquire('S3', [at('k', 'r31')])) },
    ],
  },
  {
    name: 'a run is begun anew while a guard pins it, which keeps the key',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: alone,
    actors: [
      { name: 'the guard', script: () => inTurn(guard(token('k', 105), 'repeatable read')) },
      { name: 'B', script: () => inTurn(anew, tick('S2', at('k', 'r23'), at('k', 'r24'))) },
    ],
  },
  {
    name: 'a run is begun anew at the last moment of its session',
    sessions: { S1: 60, S2: 10, S3: 60 },
    key: 'k',
    clock: [2],
    before: [...alone, acquire('S3', [at('k', 'r31')]), 9],
    actors: [
      { name: 'B', script: () => inTurn(anew) },
      { name: 'C', script: () => inTurn(tick('S3', at('k', 'r31'))) },
    ],
  },
]
