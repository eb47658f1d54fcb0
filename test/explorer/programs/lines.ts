import { acquire, at, cancel, release, tick, token } from '../calls.ts'
import type { Program } from '../program.ts'
import { inTurn, letGo, settle, takeAndRelease } from './scripts.ts'

const sessions = { S1: 30, S2: 30, S3: 30 }
const held = [acquire('S1', [at('k', 'r11')])]
const queued = [...held, acquire('S2', [at('k', 'r21')])]

/** Taking, queueing, handing over, giving up: nobody dies, no session row is written. */
export const lines: readonly Program[] = [
  {
    name: 'two take a free key and let go',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    actors: [
      { name: 'A', script: () => takeAndRelease('S1', 'k', 'r11') },
      { name: 'B', script: () => takeAndRelease('S2', 'k', 'r21') },
    ],
  },
  {
    name: 'a release meets an enqueue',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: held,
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => takeAndRelease('S2', 'k', 'r21') },
    ],
  },
  {
    name: 'a release meets two enqueues',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: held,
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => takeAndRelease('S2', 'k', 'r21') },
      { name: 'C', script: () => takeAndRelease('S3', 'k', 'r31') },
    ],
  },
  {
    name: 'a release meets a try',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: held,
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => inTurn(acquire('S2', [at('k', 'r21')], { wait: false })) },
      { name: 'C', script: () => inTurn(acquire('S3', [at('k', 'r31')])) },
    ],
  },
  {
    name: 'a hand-over meets the cancel of its ticket',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: queued,
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => inTurn(cancel('S2', at('k', 'r21'))) },
    ],
  },
  {
    name: 'a hand-over meets the cancel of its ticket and a newcomer',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: queued,
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => inTurn(cancel('S2', at('k', 'r21'))) },
      { name: 'C', script: () => takeAndRelease('S3', 'k', 'r31') },
    ],
  },
  {
    name: 'the only waiter cancels while another comes and the holder goes',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: queued,
    actors: [
      { name: 'A', script: () => inTurn(cancel('S2', at('k', 'r21'))) },
      { name: 'B', script: () => inTurn(acquire('S3', [at('k', 'r31')])) },
      { name: 'C', script: () => letGo('S1', token('k', 101)) },
    ],
  },
  {
    name: 'a request is sent twice, and given up',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: held,
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      {
        name: 'B',
        script: () =>
          inTurn(
            acquire('S2', [at('k', 'r21')]),
            acquire('S2', [at('k', 'r21')]),
            cancel('S2', at('k', 'r21')),
          ),
      },
    ],
  },
  {
    name: 'a holder asks again for what it has, and lets go, while another comes',
    sessions,
    quiet: ['sessions'],
    before: held,
    actors: [
      {
        name: 'A',
        script: function* () {
          yield acquire('S1', [at('k', 'r11')])
          yield* letGo('S1', token('k', 101))
        },
      },
      { name: 'B', script: () => takeAndRelease('S2', 'k', 'r21') },
    ],
  },
  {
    name: 'a holder lets go twice while another takes the key',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: held,
    actors: [
      { name: 'A', script: () => inTurn(release('S1', token('k', 101))) },
      { name: 'A again', script: () => inTurn(release('S1', token('k', 101))) },
      { name: 'B', script: () => takeAndRelease('S2', 'k', 'r21') },
    ],
  },
  {
    name: 'a waiter looks while it is served',
    sessions,
    key: 'k',
    quiet: ['sessions'],
    before: [...queued, acquire('S3', [at('k', 'r31')])],
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)) },
      { name: 'B', script: () => inTurn(tick('S2', at('k', 'r21'))) },
      { name: 'C', script: () => inTurn(tick('S3', at('k', 'r31'))) },
    ],
  },
  {
    name: 'a connection is lost with an acquire in flight',
    sessions,
    before: held,
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)), killed: false },
      {
        name: 'B',
        script: () => inTurn(acquire('S2', [at('k', 'r21')])),
        killed: () => settle('S2', 'k', 'r21'),
      },
    ],
  },
  {
    name: 'an acquire is late, and its client settles meanwhile',
    sessions,
    before: held,
    onTheWay: [acquire('S2', [at('k', 'r21')])],
    actors: [
      { name: 'A', script: () => letGo('S1', token('k', 101)), killed: false },
      { name: 'the late call', script: () => inTurn(acquire('S2', [at('k', 'r21')])), killed: false },
      { name: 'its client', script: () => settle('S2', 'k', 'r21'), killed: false },
    ],
  },
]
