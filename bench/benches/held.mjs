import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { COUNTING, openAccount, serverCpu } from '../harness/account.mjs'
import { bar } from '../harness/bars.mjs'
import { Cells } from '../harness/cells.mjs'
import { startPeer } from '../harness/peer.mjs'
import { percentile } from '../harness/percentiles.mjs'
import { fixed, percent } from '../harness/table.mjs'

export const summary =
  '1,000 sessions that hold a lock each, and one client that holds 10,000, all with a ttl of 1 s'

export const servers = /** @type {const} */ ([])

export const settings = COUNTING

export const lengths = { rounds: 1, window: 60_000 }

/** @type {readonly string[]} */
export const leftOut = []

/** @param {import('../harness/bench.mjs').Bench} bench */
export const lasts = ({ rounds, window }) => `${rounds} rounds, ${window / 1000} s each part`

const SESSIONS = 1000
const CONNECTIONS = 16
const LOCKS = 10_000
const TTL = 1000
/** Milliseconds over which the sessions are opened: together they would expire before the last one is. */
const OPENING = 5000
const CASE = `held, ttl ${TTL} ms`
const MANY_SESSIONS = `${SESSIONS.toLocaleString('en')} sessions, ${CONNECTIONS} connections`
const oneClient = (/** @type {number} */ locks) =>
  `one client, ${locks.toLocaleString('en')} lock${locks === 1 ? '' : 's'}`

/** @type {import('../harness/peer.mjs').Worker[]} */
const peers = []

export async function prepare() {
  peers.push(await startPeer('fencepost'))
  return peers
}

/** @param {import('../harness/bench.mjs').Bench} bench */
export async function measure(bench) {
  const cells = new Cells()
  /** @type {[string, (url: string) => Promise<Holding>][]} */
  const parts = [
    [MANY_SESSIONS, holdBySessions],
    [oneClient(1), url => holdByClient(url, 1)],
    [oneClient(LOCKS), url => holdByClient(url, LOCKS)],
  ]
  for (let round = 0; round < bench.rounds; round++) {
    for (const [who, hold] of parts) {
      const figures = await account(bench, hold)
      cells.add(CASE, who, figures)
      bench.say(round, `${who}: ${figures.beats.toFixed(1)} heartbeats/s, ${figures.lost} lost`)
    }
  }
  const [sessions, one, many] = parts.map(([who]) => cells.get(CASE, who))
  return {
    cells: cells.all(),
    bars: [
      bar('heartbeats of 10,000 locks / of one', '<=', 1.05, many?.beats / one?.beats),
      ...[sessions, many].map(cell => bar(`${cell?.who}: heap-only updates`, '>=', 0.95, cell?.hot)),
      ...[sessions, many].map(cell => bar(`${cell?.who}: lost`, '<=', 0, cell?.lost)),
    ],
    columns: COLUMNS,
  }
}

const COLUMNS = [
  { figure: 'beats', head: 'heartbeats/s', show: fixed(1) },
  { figure: 'late', head: 'late by p99 ms', show: fixed(1) },
  { figure: 'lost', head: 'lost', show: fixed(0) },
  { figure: 'hot', head: 'heap-only of sessions', show: percent },
  { figure: 'updates', head: 'updates of locks', show: fixed(0) },
  { figure: 'cpu', head: 'server CPU, cores', show: fixed(3) },
]

/**
 * @param {import('../harness/bench.mjs').Bench} bench
 * @param {(url: string) => Promise<Holding>} start
 */
async function account(bench, start) {
  const [worker] = /** @type {[import('../harness/peer.mjs').Worker]} */ (peers)
  const url = await bench.url('postgres')
  // It migrates.
  await worker.start({ url })
  await worker.stop()
  const account = await openAccount(bench.postgres, url)
  const observer = new pg.Client({ connectionString: url })
  await observer.connect()
  try {
    const holding = await start(url)
    const beats = () => account.calls('%.heartbeat(%')
    const cpu = () => serverCpu(Number(bench.postgres.pid))
    const before = { beats: await beats(), cpu: cpu(), at: performance.now() }
    await pause(bench.window)
    const seconds = (performance.now() - before.at) / 1000
    const after = { beats: await beats(), cpu: cpu() }
    const told = await holding.end()
    // A backend tells what it updated when it ends, at the latest.
    const { hot, updates } = await readUpdates(observer)
    return {
      beats: (after.beats - before.beats) / seconds,
      ...told,
      hot,
      updates,
      cpu: (after.cpu - before.cpu) / (seconds * 1000),
    }
  } finally {
    await observer.end()
    await account.end()
  }
}

/** @param {pg.Client} observer */
async function readUpdates(observer) {
  const others = `select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
    and backend_type = 'client backend'`
  while ((await observer.query(others)).rowCount !== 0) await pause(20)
  const { rows } = await observer.query(`select relname, n_tup_upd::int as updates, n_tup_hot_upd::int as hot
    from pg_stat_user_tables where schemaname = 'fencepost' and relname in ('sessions', 'locks')`)
  const [sessions, locks] = ['sessions', 'locks'].map(name => rows.find(row => row.relname === name))
  return { hot: sessions.hot / sessions.updates, updates: locks.updates }
}

/**
 * What somebody holds while it is looked at.
 * @typedef {object} Holding
 * @property {() => Promise<{ lost: number, late?: number }>} end gives it back; how much had been lost, and how late
 *   heartbeats were, in milliseconds
 */

/**
 * Sessions without a client: what a client says for each, said over a few connections.
 * @param {string} url
 * @returns {Promise<Holding>}
 */
async function holdBySessions(url) {
  const clients = Array.from({ length: CONNECTIONS }, () => new pg.Client({ connectionString: url }))
  await Promise.all(clients.map(client => client.connect()))
  let over = false
  /** @type {unknown} */
  let failure
  // One is enough to miss the bar; the others are not driven any further.
  let lost = 0
  /** @type {number[]} */
  const lateness = []
  const drive = (/** @type {pg.Client} */ client, /** @type {number} */ count) => {
    const start = performance.now()
    const sessions = Array.from({ length: count }, (_, i) => ({ id: '', due: start + (OPENING * i) / count }))
    const areOpen = () => sessions.every(({ id }) => id !== '')
    const beating = (async () => {
      while (!over && lost === 0) {
        const session = sessions.reduce((first, next) => (next.due < first.due ? next : first))
        const early = session.due - performance.now()
        if (early > 0) await pause(early)
        lateness.push(Math.max(performance.now() - session.due, 0))
        session.due = performance.now() + TTL / 3
        if (session.id === '') session.id = await openAndAcquire(client)
        else if (!(await beat(client, session.id))) lost += 1
      }
    })().catch(error => {
      failure ??= error
      over = true
    })
    return { areOpen, beating }
  }
  const driven = clients.map((client, i) => drive(client, Math.floor((SESSIONS + i) / CONNECTIONS)))
  while (!over && lost === 0 && !driven.every(({ areOpen }) => areOpen())) await pause(10)
  lateness.length = 0
  return {
    async end() {
      over = true
      await Promise.all(driven.map(({ beating }) => beating))
      await Promise.all(clients.map(client => client.end()))
      if (failure) throw failure
      return { lost, late: percentile(Float64Array.from(lateness).sort(), 0.99) }
    },
  }
}

/** @param {pg.Client} client */
async function openAndAcquire(client) {
  const id = randomUUID()
  const opened = await client.query({
    name: 'open',
    text: "select generation from fencepost.open_session($1, $2 * interval '1 ms')",
    values: [id, TTL],
  })
  const { rows } = await client.query({
    name: 'acquire',
    text: 'select outcome from fencepost.acquire($1, $2, array[$3], array[$4::uuid])',
    values: [id, opened.rows[0].generation, `bench:held by ${id}`, randomUUID()],
  })
  if (rows[0].outcome !== 'granted') throw new Error(`not granted: ${rows[0].outcome}`)
  return id
}

/**
 * As a client does: a heartbeat, and a tick after it. False: the lock is lost.
 * @param {pg.Client} client
 * @param {string} session
 */
async function beat(client, session) {
  const text = 'select renewed, held::int from fencepost.heartbeat($1)'
  const { rows } = await client.query({ name: 'beat', text, values: [session] })
  await client.query({ name: 'tick', text: 'select from fencepost.tick($1)', values: [session] })
  return rows[0].renewed && rows[0].held === 1
}

/**
 * @param {string} url
 * @param {number} locks
 * @returns {Promise<Holding>}
 */
async function holdByClient(url, locks) {
  const [worker] = /** @type {[import('../harness/peer.mjs').Worker]} */ (peers)
  await worker.start({ url })
  await worker.hold({ locks, ttl: TTL })
  return {
    async end() {
      const lost = await worker.letGo()
      await worker.stop()
      return { lost }
    },
  }
}
