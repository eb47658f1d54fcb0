import { setTimeout as pause } from 'node:timers/promises'
import { bar } from '../harness/bars.mjs'
import { monotonic } from '../harness/clock.mjs'
import { Electorate } from '../harness/electorate.mjs'
import { percentile } from '../harness/percentiles.mjs'
import { startProcess } from '../harness/process.mjs'
import { inTurn } from '../harness/rounds.mjs'
import { fixed } from '../harness/table.mjs'

export const summary = 'five candidates: from what befalls the leader to the next leader’s first write'

export const servers = /** @type {const} */ (['etcd'])

export const lengths = { rounds: 3 }

/** Five connections a candidate. */
export const settings = { max_connections: '400' }

/** On paper: from its source, for who is killed or stands still. Between two looks of a candidate are 2 to 2 × 2.2 s. */
export const leftOut = [
  'client-go by its defaults (lease 15 s, renew deadline 10 s, retry 2 s), on paper: 13 to 24 s; 2 to 4.4 s after a release, if ReleaseOnCancel is set',
]

const OURS = 'fencepost'
const ETCD = 'etcd'
const ELECTIONS = 10
const CANDIDATES = 5
/** Milliseconds between two writes of a leader. */
const EVERY = 100
/** Milliseconds. */
const TTL = { ttl: 5_000, fast: 15_000 }
const GRACE = 3_000
const SLACK = 500
const AT_ONCE = 200

/** @param {import('../harness/bench.mjs').Bench} bench */
export const lasts = ({ rounds, takeover }) =>
  `${rounds} rounds of ${ELECTIONS} elections at once, ttl ${TTL[takeover] / 1000} s, takeover '${takeover}'; etcd3: ttl ${TTL.ttl / 1000} s`

/** @typedef {import('../harness/electorate.mjs').Seat} Seat */

/**
 * What befalls a leader.
 * @typedef {object} Event
 * @property {string} name
 * @property {(seat: Seat) => unknown} strike
 * @property {(seat: Seat) => unknown} [heal] once there is a next one
 * @property {'at once' | 'presence' | 'ttl'} by what the next one comes
 * @property {boolean} [survivable] a leader that goes on is right to
 * @property {boolean} [ends] its process is gone
 * @property {boolean} [peers] etcd3 is measured under it as well
 */

const STOPPED = 'stopped (SIGSTOP), continued later'
const RESET = 'its connections reset'

/** @type {readonly Event[]} */
const EVENTS = [
  { name: 'resigns', by: 'at once', strike: ({ child }) => child.call('resign') },
  {
    name: 'ended (SIGTERM)',
    by: 'at once',
    ends: true,
    peers: true,
    strike: ({ child }) => child.kill('SIGTERM'),
  },
  {
    name: 'killed (SIGKILL)',
    by: 'presence',
    ends: true,
    peers: true,
    strike: ({ child }) => child.kill('SIGKILL'),
  },
  {
    name: STOPPED,
    by: 'ttl',
    peers: true,
    strike: ({ child }) => child.kill('SIGSTOP'),
    heal: ({ child }) => child.kill('SIGCONT'),
  },
  { name: RESET, by: 'presence', survivable: true, strike: ({ proxy }) => proxy?.cut() },
  {
    name: '… and new ones refused',
    by: 'presence',
    strike: ({ proxy }) => {
      void proxy?.accept(false)
      proxy?.cut()
    },
    heal: ({ proxy }) => proxy?.accept(true),
  },
  {
    name: 'cut off without a sign',
    by: 'ttl',
    strike: ({ proxy }) => proxy?.blackHole(),
    heal: ({ proxy }) => proxy?.release(),
  },
]

/** One description each, for the report: candidates are started when it is their turn. */
export async function prepare() {
  const described = [OURS, ETCD].map(async module => {
    const program = new URL(`../candidates/${module}.mjs`, import.meta.url)
    const child = await startProcess('candidate.mjs', [program.href], module)
    child.kill('SIGKILL')
    return child.ready
  })
  return await Promise.all(described)
}

/** @param {import('../harness/bench.mjs').Bench} bench */
export async function measure(bench) {
  const { takeover } = bench
  const ours = await measurePeer(bench, OURS, 'postgres', EVENTS, { ttl: TTL[takeover], takeover })
  const theirs = EVENTS.filter(({ peers }) => peers)
  const etcd = await measurePeer(bench, ETCD, 'etcd', theirs, { ttl: TTL.ttl, takeover: 'ttl' })
  const [fast, slow] = [takeover === 'fast' ? GRACE : TTL.ttl, TTL[takeover]]
  const most = { 'at once': AT_ONCE, presence: fast + SLACK, ttl: slow + SLACK }
  const sum = (/** @type {'held' | 'leads'} */ figure) =>
    ours.cells.reduce((total, cell) => total + (cell[figure] ?? 0), 0)
  return {
    cells: [...ours.cells, ...etcd.cells],
    bars: [
      ...EVENTS.map(({ name, by }) => {
        const cell = ours.cells.find(({ who }) => who === name)
        return bar(`${name}: p95, ms`, '<=', most[by], cell?.p95 ?? Number.NaN)
      }),
      bar('writes beside those of a later term, of all', '<=', 0, ours.account.beside),
      bar('deposed ones whose handle answered held after the next grant', '<=', 0, sum('held')),
      bar('those who answered leading when they could be asked again', '<=', 0, sum('leads')),
    ],
    columns: [
      { figure: 'rounds', head: 'rounds', show: fixed(0) },
      { figure: 'p50', head: 'p50 ms', show: fixed(0) },
      { figure: 'p95', head: 'p95 ms', show: fixed(0) },
      { figure: 'most', head: 'most ms', show: fixed(0) },
      { figure: 'kept', head: 'kept', show: fixed(0) },
      { figure: 'held', head: 'held after the next grant', show: fixed(0) },
      { figure: 'leads', head: 'said it leads, after', show: fixed(0) },
    ],
  }
}

/**
 * @param {import('../harness/bench.mjs').Bench} bench
 * @param {string} module
 * @param {'postgres' | 'etcd'} needs
 * @param {readonly Event[]} events
 * @param {{ ttl: number, takeover: 'ttl' | 'fast' }} terms
 */
async function measurePeer(bench, module, needs, events, { ttl, takeover }) {
  const url = await bench.url(needs)
  const { openRecord } = await import(`../candidates/${module}.mjs`)
  /** @type {import('../harness/candidate.mjs').Record} */
  const record = await openRecord(url)
  const terms = { ttl, takeover, every: EVERY, size: CANDIDATES, cuts: needs === 'postgres' }
  const electorates = Array.from(
    { length: ELECTIONS },
    (_, i) => new Electorate(`bench:${i}`, module, { url, record }, terms),
  )
  /** @type {Map<Event, Outcome[]>} */
  const outcomes = new Map(events.map(event => [event, []]))
  const title = `${module}, ttl ${ttl / 1000} s${needs === 'postgres' ? `, takeover '${takeover}'` : ''}`
  const settle = () => Promise.all(electorates.map(electorate => electorate.settle()))
  try {
    await settle()
    for (let round = 0; round < bench.rounds; round++) {
      for (const event of inTurn(events, round)) {
        const had = await Promise.all(electorates.map(electorate => befall(electorate, event, record, ttl)))
        outcomes.get(event)?.push(...had)
        bench.say(round, `${module}, ${event.name}: ${had.map(({ ms }) => Math.round(ms)).join(', ')} ms`)
        await settle()
      }
    }
    return { account: await record.account(), cells: cellsOf(outcomes, title) }
  } finally {
    await Promise.all(electorates.map(electorate => electorate.end()))
    await record.end()
  }
}

/**
 * @typedef {object} Outcome
 * @property {number} ms from the event to the first write after it, of the next leader or, where that went on, of the same
 * @property {boolean} kept it went on
 * @property {boolean} held its handle answered that it leads, after the next one was granted
 * @property {boolean} leads it said so when it could be asked again
 */

/**
 * @param {Electorate} electorate
 * @param {Event} event
 * @param {import('../harness/candidate.mjs').Record} record
 * @param {number} ttl
 * @returns {Promise<Outcome>}
 */
async function befall(electorate, event, record, ttl) {
  // Whenever between two heartbeats it comes, and not in all elections at once.
  await pause(Math.random() * Math.min(ttl, 5_000))
  const { leader } = electorate
  const struck = monotonic()
  const wrote = electorate.next(
    ({ seat, what, began }) =>
      what === 'wrote' && began >= struck && (seat !== leader || event.survivable === true),
    2 * ttl + 10_000,
  )
  void (async () => event.strike(leader))().catch(() => {})
  let first = await wrote
  const kept = first?.seat === leader
  // It may be too late, or come back too late: then another one leads within a ttl.
  const other = kept
    ? await electorate.next(({ seat, what }) => what === 'wrote' && seat !== leader, ttl + SLACK)
    : first
  if (kept && other) first = other
  const ms = first ? first.at - struck : Number.POSITIVE_INFINITY
  await event.heal?.(leader)
  const outcome = { ms, kept: kept && !other, held: false, leads: false }
  if (event.ends) {
    await leader.child.exited
    return outcome
  }
  const { isLeader, believedUntil } = await leader.child.call('look')
  if (outcome.kept || !other?.token) return { ...outcome, leads: !outcome.kept && isLeader }
  return {
    ...outcome,
    leads: isLeader,
    held: believedUntil > (await record.since(electorate.name, other.token)),
  }
}

/**
 * @param {Map<Event, Outcome[]>} outcomes
 * @param {string} title
 * @returns {import('../harness/cells.mjs').Cell[]}
 */
const cellsOf = (outcomes, title) =>
  [...outcomes].map(([{ name }, had]) => ({ case: title, who: name, ...figuresOf(had) }))

/** @param {readonly Outcome[]} outcomes */
function figuresOf(outcomes) {
  const sorted = outcomes.map(({ ms }) => ms).sort((one, other) => one - other)
  const count = (/** @type {'kept' | 'held' | 'leads'} */ what) =>
    outcomes.filter(outcome => outcome[what]).length
  return {
    rounds: sorted.length,
    p50: percentile(sorted, 0.5),
    p95: percentile(sorted, 0.95),
    most: percentile(sorted, 1),
    kept: count('kept'),
    held: count('held'),
    leads: count('leads'),
  }
}
