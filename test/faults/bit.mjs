import { clientFaults } from './faults/client-faults.mjs'
import { serverFaults } from './faults/server-faults.mjs'

/** Effects that any profile with faults is to have, whichever fault brought them about. */
const always = [
  ...['staleWritesRefused', 'expiredUnderLiveHolder', 'handedOver', 'newIncarnations'],
  ...[
    'readersTogether',
    'readersExpired',
    'downgraded',
    'heavyWaited',
    'resized',
    'linesClosed',
    'permitsPassedOn',
    'termsLost',
  ],
]

/** The faults of the profile that have had no effect yet, so far as a run shows that goes on. */
export function toothless(run, noted, faults) {
  const seen = bites(run, noted, faults)
  const struck = [...clientFaults, ...serverFaults].filter(fault => faults.includes(fault.name))
  return struck.filter(fault => seen[fault.bite] === 0).map(fault => fault.name)
}

/**
 * Counts what the faults did, not that they were tried.
 *
 * @param {any} run what the checker gets
 * @param {Record<string, number>} noted by the faults and the processes themselves
 * @param {readonly string[]} faults of the profile
 * @returns {Record<string, number>} by effect; those that the profile is to have, also where they never came about
 */
export function bites(run, noted, faults) {
  const { events, journal, final } = run
  const count = (list, test) => list.filter(test).length
  const killed = new Set(events.filter(e => e.op === 'process' && e.phase === 'fail').map(e => e.process))
  const owner = entry => String(entry.label).split(' ')[0] ?? ''
  const there = new Set(final?.ledger.map(row => row.id))
  // Sleepers expire on purpose, whatever the faults do.
  const died = journal.filter(
    entry => entry.event === 'died' && entry.detail.expired === true && !/asleep$/.test(entry.label ?? ''),
  )
  const lost = reason =>
    new Set(events.filter(e => e.op === 'state' && e.state === 'lost' && e.reason === reason).map(e => e.id))
      .size
  const seen = {
    ...noted,
    expiredUnderLiveHolder: count(died, e => Number(e.detail.holds) > 0 && !killed.has(owner(e))),
    killedHolderExpired: count(died, e => Number(e.detail.holds) > 0 && killed.has(owner(e))),
    lostByStall: lost('expired'),
    unreachable: lost('unreachable'),
    staleWritesRefused: count(events, e => e.op === 'write' && /^FP00[23]$/.test(e.code ?? '')),
    unknownWriteFound: count(events, e => e.op === 'write' && e.phase === 'unknown' && there.has(e.id)),
    suspended: count(events, e => e.op === 'state' && e.state === 'suspended'),
    poolTimeouts: count(events, e => e.op === 'write' && /timeout exceeded/.test(e.code ?? '')),
    notificationsDropped: events.reduce((sum, e) => sum + (e.op === 'deaf' ? e.dropped : 0), 0),
    handedOver: count(journal, e => e.event === 'granted' && e.detail.by === 'hand-over'),
    newIncarnations: count(journal, e => e.event === 'incarnation'),
    crashRecoveries: count(journal, e => e.event === 'incarnation' && e.detail.restarted === false),
    restarts: count(
      journal,
      e => e.event === 'incarnation' && e.detail.restarted === true && e.detail.timeline === 0,
    ),
    promotions: count(journal, e => e.event === 'incarnation' && Number(e.detail.timeline) > 0),
    lostGrants: count(run.lost, e => e.event === 'granted' || e.event === 'joined'),
    lostWrites: count(run.lost, e => e.event === 'write'),
    graces: count(journal, e => e.event === 'graced'),
    termsLost: count(events, e => e.op === 'ended' && e.reason !== undefined),
    ...modes(run),
  }
  const wanted = [...clientFaults, ...serverFaults]
    .filter(fault => faults.includes(fault.name))
    .map(fault => fault.bite)
  const all = faults.length > 5 ? [...wanted, ...always] : wanted
  return Object.fromEntries([...new Set(all)].map(name => [name, seen[name] ?? 0]))
}

function modes({ events, journal }) {
  const joined = journal.filter(entry => entry.event === 'joined')
  const readers = joined.filter(({ detail }) => detail.permits === null)
  const commits = new Map(readers.map(({ key, xid }) => [`${key} ${xid}`, 0]))
  for (const { key, xid } of readers) commits.set(`${key} ${xid}`, (commits.get(`${key} ${xid}`) ?? 0) + 1)
  const tickets = new Map(
    journal.filter(({ event }) => event === 'ticket').map(({ request, xid }) => [request, xid]),
  )
  const expired = new Set(
    journal.filter(({ event, detail }) => event === 'died' && detail.expired).map(({ session }) => session),
  )
  const done = op => events.filter(event => event.op === op && event.phase === 'ok').length
  return {
    readersTogether: [...commits.values()].filter(count => count > 1).length,
    heavyWaited: joined.filter(
      ({ detail, request, xid }) => Number(detail.permits) >= 4 && tickets.get(request) !== xid,
    ).length,
    linesClosed: journal.filter(
      ({ event, detail }) => event === 'unheld' && detail.mode === null && !detail.marked && !detail.rests,
    ).length,
    readersExpired: journal.filter(({ event, session }) => event === 'left' && expired.has(session)).length,
    permitsPassedOn: passedOn(events, joined),
    downgraded: done('downgrade'),
    resized: done('resize'),
  }
}

/** Grants of permits that the database gave to somebody else in the same process. */
function passedOn(events, joined) {
  const given = new Set(joined.map(({ key, token, label }) => `${key} ${token} ${label}`))
  return events.filter(
    ({ op, phase, mode, key, token, id }) =>
      op === 'acquire' && phase === 'ok' && mode === 'permits' && !given.has(`${key} ${token} ${id}`),
  ).length
}
