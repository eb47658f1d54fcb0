import {
  acquire,
  at,
  cancel,
  closeSession,
  guard,
  permits,
  releasePermits,
  tick,
  token,
  turnPermits,
} from '../calls.ts'
import type { Program } from '../program.ts'
import { giveBackPermits, givesBackGranted, inTurn } from './scripts.ts'

const sessions = { S1: 60, S2: 60, S3: 60 }
const quiet = ['sessions']
const holders = true
const takes = (session: string, request: string, capacity = 1) =>
  acquire(session, [at('k', request)], { terms: permits(1, capacity) })

/** S2 has the only permit under 102, and behind it r22, to whom it may pass it on; then comes S3. */
const followed = [takes('S2', 'r21'), takes('S2', 'r22'), takes('S3', 'r31')]
/** Of two, S2 has one under 102, and S1 the other under 103. */
const shared = [takes('S2', 'r21', 2), takes('S1', 'r11', 2), takes('S2', 'r22', 2), takes('S3', 'r31', 2)]

const told = () => inTurn(turnPermits('S2', token('k', 102), 'r22'))
const back = () => giveBackPermits('S2', token('k', 102), 'r22')

/** Permits that one process passes on to its own next in line, and tells of it when they go back, or last. */
export const passing: readonly Program[] = [
  {
    name: 'who may be passed permits comes while they go back, and another process comes',
    sessions,
    quiet,
    holders,
    before: [takes('S2', 'r21')],
    actors: [
      { name: 'B', script: () => inTurn(takes('S2', 'r22')) },
      { name: 'B too', script: () => inTurn(releasePermits('S2', token('k', 102))) },
      { name: 'C', script: () => inTurn(takes('S3', 'r31')) },
    ],
  },
  {
    name: 'permits that were passed on go back while another process looks',
    sessions,
    quiet,
    holders,
    before: followed,
    actors: [
      { name: 'B', script: back },
      { name: 'C', script: () => inTurn(tick('S3', at('k', 'r31'))) },
    ],
  },
  {
    name: 'permits that were passed on go back, and once more, while another process comes',
    sessions,
    quiet,
    holders,
    before: followed.slice(0, 2),
    actors: [
      { name: 'B', script: back },
      { name: 'B again', script: back },
      { name: 'C', script: () => inTurn(takes('S3', 'r31')) },
    ],
  },
  {
    name: 'permits go back past who gives up in line, to whom they were not passed on',
    sessions,
    quiet,
    holders,
    before: [takes('S2', 'r21'), takes('S2', 'r23'), takes('S2', 'r22'), takes('S3', 'r31')],
    actors: [
      { name: 'B', script: () => inTurn(cancel('S2', at('k', 'r23'))) },
      { name: 'B too', script: back },
      { name: 'C', script: () => inTurn(tick('S3', at('k', 'r31'))) },
    ],
  },
  {
    name: 'it is told who has permits while they go back, and another process looks',
    sessions,
    quiet,
    holders,
    before: followed,
    actors: [
      { name: 'B', script: told },
      { name: 'B too', script: back },
      { name: 'C', script: () => inTurn(tick('S3', at('k', 'r31'))) },
    ],
  },
  {
    name: 'it is told who has permits while that is granted others, for which its process comes',
    sessions,
    quiet,
    holders,
    before: shared,
    actors: [
      { name: 'A', script: () => inTurn(releasePermits('S1', token('k', 103))) },
      { name: 'B', script: told },
      { name: 'B too', script: () => givesBackGranted('S2', 'k', 'r22', 102) },
    ],
  },
  {
    name: 'permits go back while who has had them is granted others, for which its process comes',
    sessions,
    holders,
    before: [...shared.slice(0, 3), takes('S2', 'r23', 2), ...shared.slice(3)],
    actors: [
      { name: 'A', script: () => inTurn(releasePermits('S1', token('k', 103))) },
      { name: 'B', script: back },
      { name: 'B too', script: () => givesBackGranted('S2', 'k', 'r22', 102) },
    ],
  },
  {
    name: 'it is told who has permits that a transaction has pinned, and they go back',
    sessions,
    quiet,
    holders,
    before: followed,
    actors: [
      { name: 'the guard', script: () => inTurn(guard(token('k', 102))) },
      { name: 'B', script: told },
      { name: 'B too', script: back },
    ],
  },
  {
    name: 'it is told who has permits by a process that closes',
    sessions,
    holders,
    before: followed,
    actors: [
      { name: 'B', script: told, killed: false },
      { name: 'B too', script: () => inTurn(closeSession('S2')), killed: false },
      { name: 'C', script: () => inTurn(tick('S3', at('k', 'r31'))), whole: true },
    ],
  },
  {
    name: 'it is told who has permits at the last moment of its session',
    sessions: { S1: 60, S2: 10, S3: 60 },
    holders,
    clock: [2],
    before: [...followed, 9],
    actors: [
      { name: 'B', script: told },
      { name: 'C', script: () => inTurn(tick('S3', at('k', 'r31'))) },
    ],
  },
]
