import { setTimeout as pause } from 'node:timers/promises'
import { COUNTING, openAccount } from '../harness/account.mjs'
import { bar } from '../harness/bars.mjs'
import { Electorate } from '../harness/electorate.mjs'
import { startProcess } from '../harness/process.mjs'
import { fixed } from '../harness/table.mjs'

export const summary = 'elections while the database takes two seconds to answer'

export const servers = /** @type {const} */ ([])

export const lengths = { rounds: 1, window: 30_000 }

/** Five connections a candidate. */
export const settings = { ...COUNTING, max_connections: '200' }

/** @type {readonly string[]} */
export const leftOut = []

const MODULE = 'fencepost'
const ELECTIONS = 4
const CANDIDATES = 5
/** Milliseconds, as are the others. */
const DELAY = 2_000
const TTL = 15_000
/** Before, to compare with; and after, until what was lost would have been noticed. */
const BEFORE = 15_000
const AFTER = TTL + 5_000

const CALM = 'before'
const SLOW = `each answer ${DELAY / 1000} s late`
const LATER = 'afterwards'

/** @param {import('../harness/bench.mjs').Bench} bench */
export const lasts = ({ rounds, window, takeover }) =>
  `${rounds} rounds of ${window / 1000} s, ${ELECTIONS} elections at once of ${CANDIDATES} candidates each, ttl ${TTL / 1000} s, takeover '${takeover}'`

export async function prepare() {
  const program = new URL(`../candidates/${MODULE}.mjs`, import.meta.url)
  const child = await startProcess('candidate.mjs', [program.href], MODULE)
  child.kill('SIGKILL')
  const { name, version, needs } = child.ready
  return [{ name, version, needs, settings: 'defaults; leaders write nothing' }]
}

/** @param {import('../harness/bench.mjs').Bench} bench */
export async function measure(bench) {
  const { takeover, rounds, window } = bench
  const url = await bench.url('postgres')
  const { openRecord } = await import(`../candidates/${MODULE}.mjs`)
  /** @type {import('../harness/candidate.mjs').Record} */
  const record = await openRecord(url)
  const account = await openAccount(bench.postgres, url)
  const terms = { ttl: TTL, takeover, size: CANDIDATES, cuts: true }
  const electorates = Array.from(
    { length: ELECTIONS },
    (_, i) => new Electorate(`bench:${i}`, MODULE, { url, record }, terms),
  )
  await Promise.all(electorates.map(electorate => electorate.settle()))
  /** @type {{ who: string, statements: number, connections: number, changes: number[] }[]} */
  const phases = []
  for (let round = 0; round < rounds; round++) {
    for (const [who, length, delay] of /** @type {const} */ ([
      [CALM, BEFORE, 0],
      [SLOW, window, DELAY],
      [LATER, AFTER, 0],
    ])) {
      delayAll(electorates, delay)
      const phase = { who, ...(await observe(electorates, account, length)) }
      phases.push(phase)
      bench.say(
        round,
        `${who}: ${phase.statements.toFixed(1)} statements/s, changes of leader ${phase.changes.join(', ')}`,
      )
    }
    await Promise.all(electorates.map(electorate => electorate.settle()))
  }
  await Promise.all(electorates.map(electorate => electorate.end()))
  await Promise.all([account.end(), record.end()])

  const of = (/** @type {string} */ who) => phases.filter(phase => phase.who === who)
  const cells = [CALM, SLOW, LATER].map(who => {
    const figure = (/** @type {'statements' | 'connections'} */ name) =>
      Math.max(...of(who).map(phase => phase[name])) / ELECTIONS
    const changes = Math.max(...of(who).flatMap(phase => phase.changes))
    return {
      case: `an election of ${CANDIDATES}, takeover '${takeover}'`,
      who,
      statements: figure('statements'),
      connections: figure('connections'),
      changes,
    }
  })
  const [calm, slow] = cells
  // What was slow may show later: of each election and round, both together.
  const changes = of(SLOW).flatMap((phase, round) =>
    phase.changes.map((count, i) => count + (of(LATER)[round]?.changes[i] ?? 0)),
  )
  return {
    cells,
    bars: [
      bar('changes of leader in an election, while it is slow and afterwards', '<=', 1, Math.max(...changes)),
      bar(
        'statements a second while it is slow / before',
        '<=',
        2,
        (slow?.statements ?? 0) / (calm?.statements ?? 0),
      ),
    ],
    columns: [
      { figure: 'statements', head: 'statements/s', show: fixed(1) },
      { figure: 'connections', head: 'connections opened', show: fixed(1) },
      { figure: 'changes', head: 'changes of leader', show: fixed(0) },
    ],
  }
}

/**
 * @param {readonly Electorate[]} electorates
 * @param {number} delay
 */
function delayAll(electorates, delay) {
  for (const { seats } of electorates) {
    for (const { proxy } of seats) {
      if (delay === 0) proxy?.release()
      else proxy?.delay(delay, 'toClient')
    }
  }
}

/**
 * What happens in so many milliseconds: statements a second and connections of all of them, changes in each.
 * @param {readonly Electorate[]} electorates
 * @param {Awaited<ReturnType<typeof openAccount>>} account
 * @param {number} length
 */
async function observe(electorates, account, length) {
  const changes = electorates.map(() => 0)
  const ends = electorates.map((electorate, i) =>
    electorate.listen(({ what }) => {
      if (what === 'elected') changes[i] = (changes[i] ?? 0) + 1
    }),
  )
  const connections = () => electorates.reduce((sum, electorate) => sum + electorate.connections, 0)
  const before = { statements: await account.calls('%'), connections: connections(), at: performance.now() }
  await pause(length)
  const after = { statements: await account.calls('%'), connections: connections(), at: performance.now() }
  for (const end of ends) end()
  return {
    statements: ((after.statements - before.statements) / (after.at - before.at)) * 1000,
    connections: after.connections - before.connections,
    changes,
  }
}
