import { acquire, at, cancel, force, guard, heartbeat, tick, token } from '../calls.ts'
import type { Program } from '../program.ts'
import { inTurn, letGo, takeAndRelease } from '../programs/scripts.ts'

const held = [acquire('S1', [at('k', 'r11')])]
export const queued = [...held, acquire('S2', [at('k', 'r21')])]
export const sessions = { S1: 60, S2: 60, S3: 60 }
const expiring = { S1: 10, S2: 60, S3: 60 }

export const newcomers: Program = {
  name: 'two take a free key and let go',
  sessions,
  quiet: ['sessions'],
  actors: [
    { name: 'A', script: () => takeAndRelease('S1', 'k', 'r11') },
    { name: 'B', script: () => takeAndRelease('S2', 'k', 'r21') },
  ],
}

export const enqueues: Program = {
  name: 'a release meets two enqueues',
  sessions,
  quiet: ['sessions'],
  before: held,
  actors: [
    { name: 'A', script: () => letGo('S1', token('k', 101)) },
    { name: 'B', script: () => inTurn(acquire('S2', [at('k', 'r21')])) },
    { name: 'C', script: () => inTurn(acquire('S3', [at('k', 'r31')])) },
  ],
}

export const cancels: Program = {
  name: 'a hand-over meets the cancel of its ticket',
  sessions,
  quiet: ['sessions'],
  before: queued,
  actors: [
    { name: 'A', script: () => letGo('S1', token('k', 101)) },
    { name: 'B', script: () => inTurn(cancel('S2', at('k', 'r21'))) },
  ],
}

export const lastMoment: Program = {
  name: 'a heartbeat at the last moment meets a newcomer',
  sessions: expiring,
  clock: [2],
  before: [...held, 9],
  actors: [
    { name: 'A', script: () => inTurn(heartbeat('S1')) },
    { name: 'B', script: () => inTurn(acquire('S2', [at('k', 'r21')])) },
  ],
}

export const taken: Program = {
  name: 'a key taken by hand meets a heartbeat, and a waiter when the time is up',
  sessions: expiring,
  clock: [6],
  before: [...queued, 5],
  actors: [
    { name: 'A', script: () => inTurn(heartbeat('S1')) },
    { name: 'the operator', script: () => inTurn(force(at('k', 'r11'))), whole: true },
    { name: 'B', script: () => inTurn(tick('S2', at('k', 'r21'))), whole: true },
  ],
}

export const fourGuards: Program = {
  name: 'two guards meet an enqueue and a release',
  sessions,
  key: 'k',
  quiet: ['sessions'],
  before: held,
  actors: [
    { name: 'B', script: () => inTurn(acquire('S2', [at('k', 'r21')])), whole: true },
    { name: 'A', script: () => letGo('S1', token('k', 101)) },
    { name: 'another guard', script: () => inTurn(guard(token('k', 101))), whole: true },
    { name: 'the guard', script: () => inTurn(guard(token('k', 101), 'repeatable read')) },
  ],
}

export const ownSession: Program = {
  name: 'an acquire meets the reaping of its own session',
  sessions: expiring,
  clock: [2],
  before: [9],
  actors: [
    { name: 'A', script: () => inTurn(acquire('S1', [at('k', 'r11')])) },
    { name: 'B', script: () => inTurn(tick('S2')) },
  ],
}

export const headDies: Program = {
  name: 'a hand-over meets the reaping of the head of the line',
  sessions: { S1: 60, S2: 10, S3: 60 },
  clock: [2],
  before: [...queued, 9],
  actors: [
    { name: 'A', script: () => letGo('S1', token('k', 101)) },
    { name: 'B', script: () => inTurn(tick('S3')) },
  ],
}

export const twoKeys: Program = {
  name: 'a release of two keys meets an enqueue for both',
  sessions,
  quiet: ['sessions'],
  before: [acquire('S1', [at('a', 'r11'), at('b', 'r12')])],
  actors: [
    { name: 'A', script: () => letGo('S1', token('a', 101), token('b', 102)) },
    { name: 'B', script: () => inTurn(acquire('S2', [at('a', 'r21'), at('b', 'r22')])) },
  ],
}
