import {
  acquire,
  at,
  type Call,
  cancel,
  closeSession,
  heartbeat,
  pin,
  release,
  type Script,
  several,
  shared,
  tick,
  token,
} from '../calls.ts'
import type { Program } from '../program.ts'
import { inTurn, letGo } from './scripts.ts'

const sessions = { S1: 60, S2: 60, S3: 60 }
const quiet = ['sessions']
const both = (n: number) => [at('a', `r${n}1`), at('b', `r${n}1`)]
const wants = (n: number, wait = true): Call => acquire(`S${n}`, both(n), { wait, terms: several })
const comes = (n: number): Call => tick(`S${n}`, ...both(n))

/** Takes both keys, or gives them up again. */
function* takeBoth(n: number): Script {
  const { answers } = yield wants(n)
  const granted = answers.filter(({ outcome }) => outcome === 'granted')
  if (granted.length === 2)
    yield release(`S${n}`, ...granted.map(answer => token(answer.key ?? '', answer.token ?? 0)))
  else yield cancel(`S${n}`, ...both(n))
}

/** Requests for several keys: all or none of them. */
export const wide: readonly Program[] = [
  {
    name: 'two want the same two keys',
    sessions,
    quiet,
    actors: [
      { name: 'A', script: () => takeBoth(1) },
      { name: 'B', script: () => takeBoth(2) },
    ],
  },
  {
    name: 'two want the same two keys while they are let go',
    sessions,
    quiet,
    before: [acquire('S3', [at('a', 'r31'), at('b', 'r32')])],
    actors: [
      { name: 'A', script: () => inTurn(wants(1)) },
      { name: 'B', script: () => inTurn(wants(2)) },
      { name: 'C', script: () => letGo('S3', token('a', 101), token('b', 102)) },
    ],
  },
  {
    name: 'each of two keys is let go while one waits for both',
    sessions,
    quiet,
    before: [acquire('S1', [at('a', 'r11')]), acquire('S2', [at('b', 'r21')]), wants(3)],
    actors: [
      { name: 'A', script: () => letGo('S1', token('a', 101)) },
      { name: 'B', script: () => letGo('S2', token('b', 102)) },
      { name: 'C', script: () => inTurn(comes(3), comes(3)) },
    ],
  },
  {
    name: 'who waits for two keys gives up while one is let go, and another waits for the other',
    sessions,
    quiet,
    before: [acquire('S1', [at('a', 'r11')]), wants(2), acquire('S3', [at('b', 'r31')])],
    actors: [
      { name: 'A', script: () => letGo('S1', token('a', 101)) },
      { name: 'B', script: () => inTurn(cancel('S2', ...both(2))) },
      { name: 'C', script: () => inTurn(tick('S3', at('b', 'r31'))) },
    ],
  },
  {
    name: 'who waits for two keys comes for them, and has given up meanwhile',
    sessions,
    quiet,
    before: [acquire('S1', [at('a', 'r11')]), wants(2)],
    actors: [
      { name: 'A', script: () => letGo('S1', token('a', 101)) },
      { name: 'B', script: () => inTurn(comes(2)) },
      { name: 'C', script: () => inTurn(cancel('S2', ...both(2))) },
    ],
  },
  {
    name: 'who waits for two keys closes while one is let go',
    sessions,
    before: [acquire('S1', [at('a', 'r11')]), wants(2), acquire('S3', [at('b', 'r31')])],
    actors: [
      { name: 'A', script: () => letGo('S1', token('a', 101)), killed: false },
      { name: 'B', script: () => inTurn(closeSession('S2')), killed: false },
      { name: 'C', script: () => inTurn(tick('S3', at('b', 'r31'))), killed: false },
    ],
  },
  {
    name: 'who waits for two keys dies',
    sessions: { S1: 60, S2: 10, S3: 60 },
    clock: [2],
    before: [acquire('S1', [at('a', 'r11')]), wants(2), acquire('S3', [at('b', 'r31')]), 9],
    actors: [
      { name: 'A', script: () => inTurn(heartbeat('S2')) },
      { name: 'C', script: () => inTurn(tick('S3', at('b', 'r31'))) },
    ],
  },
  {
    name: 'who waits for two keys comes for them while it is found dead',
    sessions: { S1: 60, S2: 10, S3: 60 },
    clock: [2],
    before: [acquire('S1', [at('a', 'r11')]), wants(2), release('S1', token('a', 101)), 9],
    actors: [
      { name: 'A', script: () => inTurn(comes(2)) },
      { name: 'B', script: () => inTurn(acquire('S3', [at('b', 'r31')]), tick('S3', at('b', 'r31'))) },
    ],
  },
  {
    name: 'a try of two keys meets who lets go of one, and who wants the other',
    sessions,
    quiet,
    before: [acquire('S1', [at('a', 'r11')])],
    actors: [
      { name: 'A', script: () => letGo('S1', token('a', 101)) },
      { name: 'B', script: () => inTurn(wants(2, false)) },
      { name: 'C', script: () => inTurn(acquire('S3', [at('b', 'r31')])) },
    ],
  },
  {
    name: 'the keys that one waits for are held by readers, and let go',
    sessions,
    quiet,
    holders: true,
    before: [acquire('S1', [at('a', 'r11'), at('b', 'r12')], { terms: shared }), wants(2)],
    actors: [
      { name: 'A', script: () => letGo('S1', token('a', 102), token('b', 104)) },
      { name: 'B', script: () => inTurn(comes(2)) },
      { name: 'C', script: () => inTurn(acquire('S3', [at('b', 'r31')], { terms: shared })) },
    ],
  },
  {
    name: 'who would pin one of two keys comes too late, and stays',
    sessions,
    quiet,
    before: [acquire('S1', [at('a', 'r11')]), wants(2)],
    actors: [
      { name: 'the guard', script: () => inTurn(pin(token('a', 101))) },
      { name: 'A', script: () => letGo('S1', token('a', 101)), whole: true },
      { name: 'B', script: () => inTurn(comes(2)) },
    ],
  },
  {
    name: 'readers and writers of two keys in batches, in either order',
    sessions,
    quiet,
    holders: true,
    before: [acquire('S3', [at('a', 'r31'), at('b', 'r32')], { terms: [shared, undefined] })],
    actors: [
      {
        name: 'A',
        script: () => inTurn(acquire('S1', [at('a', 'r11'), at('b', 'r12')], { terms: [shared, undefined] })),
      },
      {
        name: 'B',
        script: () => inTurn(acquire('S2', [at('b', 'r22'), at('a', 'r21')], { terms: [shared, undefined] })),
      },
      { name: 'C', script: () => letGo('S3', token('b', 101), token('a', 103)) },
    ],
  },
]
