import { acquire, at, closeSession, type Place, release, type Script, tick, token } from '../calls.ts'
import type { Program } from '../program.ts'
import { announce, end, leaseOf, leave, record, startedOf, take } from '../schedule-calls.ts'
import { inTurn, letGo } from './scripts.ts'

const lease = leaseOf('s')
const first = token(lease, 101)
const schedules = true
const sessions = { S1: 60, S2: 60 }
const quiet = ['sessions']

/** S1 has the lease under 101, five seconds after the schedule was announced. */
const leased = [announce('s', 'n1'), 5, acquire('S1', [at(lease, 'r11')])]
/** S2 is next in line. */
const waitedFor = [...leased, acquire('S2', [at(lease, 'r21')])]
/** Two attempts are allowed. */
const retried = [announce('s', 'n1', { attempts: 2 }), ...waitedFor.slice(1)]

/** Runs what is due, under a lease that it has. */
function* runs(session: string, held: Place, ...slots: readonly number[]): Script {
  const { answers } = yield take(session, held, slots)
  const started = startedOf(answers[0]?.outcome)
  if (started) yield end(session, held, started.slot, started.attempt)
}

/** Looks whether the lease is its own by now, and runs what is due. */
function* comes(session: string, request: string, ...slots: readonly number[]): Script {
  const { answers } = yield tick(session, at(lease, request))
  const granted = answers.find(({ outcome }) => outcome === 'granted')
  if (granted?.token != null) yield* runs(session, token(lease, granted.token), ...slots)
}

/** Slots that are due while the lease changes hands, while one runs, and while another definition comes to rule. */
export const ticking: readonly Program[] = [
  {
    name: 'a tick is due at the takeover from a session that ends',
    sessions: { S1: 10, S2: 60 },
    schedules,
    clock: [2],
    before: [...waitedFor, 4],
    actors: [
      { name: 'A', script: () => runs('S1', first, 8, 9) },
      { name: 'B', script: () => comes('S2', 'r21', 8, 9) },
    ],
  },
  {
    name: 'a tick that may be tried again is due at the takeover from a session that ends',
    sessions: { S1: 10, S2: 60 },
    schedules,
    clock: [2],
    before: [...retried, 4],
    actors: [
      { name: 'A', script: () => runs('S1', first, 9) },
      { name: 'B', script: () => comes('S2', 'r21', 9) },
    ],
  },
  {
    name: 'a lease is given back while a call under it is late, and the next one comes',
    sessions,
    quiet,
    schedules,
    before: retried,
    actors: [
      { name: 'the late call', script: () => inTurn(take('S1', first, [4, 5])), killed: false },
      { name: 'A', script: () => letGo('S1', first) },
      { name: 'B', script: () => comes('S2', 'r21', 4, 5) },
    ],
  },
  {
    name: 'a second attempt is started by a call that is sent twice, and its session closes',
    sessions,
    schedules,
    before: [...retried, take('S1', first, [5]), end('S1', first, 5, 1, true)],
    actors: [
      { name: 'A', script: () => inTurn(take('S1', first, [])) },
      { name: 'A again', script: () => inTurn(take('S1', first, [])) },
      { name: 'A too', script: () => inTurn(closeSession('S1')), whole: true },
    ],
  },
  {
    name: 'a tick ends while a slot is recorded that comes meanwhile',
    sessions,
    quiet,
    schedules,
    before: [...leased, take('S1', first, [4])],
    actors: [
      { name: 'A', script: () => inTurn(end('S1', first, 4), take('S1', first, [5])) },
      { name: 'A too', script: () => inTurn(take('S1', first, [5], { starts: false })) },
    ],
  },
  {
    name: 'an attempt fails, that is said twice, and the next one is taken',
    sessions,
    quiet,
    schedules,
    before: [...retried, take('S1', first, [5])],
    actors: [
      { name: 'A', script: () => inTurn(end('S1', first, 5, 1, true), take('S1', first, [])) },
      { name: 'A again', script: () => inTurn(end('S1', first, 5, 1, true)) },
    ],
  },
  {
    name: 'a higher version comes while slots are taken by the one that ruled',
    sessions,
    quiet,
    schedules,
    before: leased,
    actors: [
      { name: 'A', script: () => runs('S1', first, 4, 5) },
      { name: 'B', script: () => inTurn(announce('s', 'n2', { version: 2, cron: '30 * * * * *' })) },
    ],
  },
  {
    name: 'two versions come while the node goes whose definition rules',
    sessions,
    quiet,
    schedules,
    before: [announce('s', 'n1'), 5],
    actors: [
      { name: 'A', script: () => inTurn(leave('s', 'n1')) },
      { name: 'B', script: () => inTurn(announce('s', 'n2', { version: 2, cron: '20 * * * * *' })) },
      { name: 'C', script: () => inTurn(announce('s', 'n3', { version: 3, cron: '30 * * * * *' })) },
    ],
  },
  {
    name: 'two announce a schedule that nobody knows, and one of them goes',
    sessions,
    quiet,
    schedules,
    actors: [
      { name: 'A', script: () => inTurn(announce('s', 'n1'), leave('s', 'n1')) },
      { name: 'B', script: () => inTurn(announce('s', 'n2', { cron: '30 * * * * *' })) },
    ],
  },
  {
    name: 'a schedule that was forgotten is announced while another finds it',
    sessions,
    schedules,
    before: [announce('s', 'n1'), 91 * 86_400],
    actors: [
      { name: 'A', script: () => inTurn(announce('s', 'n2')) },
      { name: 'B', script: () => inTurn(announce('t', 'n3')) },
    ],
  },
]

const of = (key: string) => `${key}:once`
const mine = token(of('k'), 101)

/** Looks whether it is its turn by now, and records what it has. */
function* recordsNext(result: string): Script {
  const { answers } = yield tick('S2', at(of('k'), 'r21'))
  const granted = answers.find(({ outcome }) => outcome === 'granted')
  if (granted?.token != null) yield record('S2', token(of('k'), granted.token), result)
}

/** What is done once, while its lease changes hands and what was kept is deleted. */
export const once: readonly Program[] = [
  {
    name: 'a result is recorded at the takeover from a session that ends',
    sessions: { S1: 10, S2: 60 },
    schedules,
    clock: [2],
    before: [acquire('S1', [at(of('k'), 'r11')]), acquire('S2', [at(of('k'), 'r21')]), 9],
    actors: [
      { name: 'A', script: () => inTurn(record('S1', mine, 'first')) },
      { name: 'B', script: () => recordsNext('second') },
    ],
  },
  {
    name: 'a result is recorded twice under one lease, which is given back',
    sessions,
    quiet,
    schedules,
    before: [acquire('S1', [at(of('k'), 'r11')]), acquire('S2', [at(of('k'), 'r21')])],
    actors: [
      { name: 'A', script: () => inTurn(record('S1', mine, 'first'), release('S1', mine)) },
      { name: 'A again', script: () => inTurn(record('S1', mine, 'again')) },
      { name: 'B', script: () => recordsNext('second') },
    ],
  },
  {
    name: 'a result is recorded anew while others delete the old ones',
    sessions: { S1: 60, S2: 60, S3: 60 },
    quiet,
    schedules,
    before: [
      acquire('S1', [at(of('k'), 'r11')]),
      record('S1', mine, 'old', 2),
      release('S1', mine),
      5,
      acquire('S1', [at(of('k'), 'r12')]),
      acquire('S2', [at(of('j'), 'r21')]),
      acquire('S3', [at(of('i'), 'r31')]),
    ],
    actors: [
      { name: 'A', script: () => inTurn(record('S1', token(of('k'), 102), 'new')) },
      { name: 'B', script: () => inTurn(record('S2', token(of('j'), 103), 'one')) },
      { name: 'C', script: () => inTurn(record('S3', token(of('i'), 104), 'other')), whole: true },
    ],
  },
]
