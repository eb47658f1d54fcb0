import { Bench } from './bench.mjs'
import { cleanUp, cleanUpOnSignals, interrupted } from './cleanup.mjs'
import { assertDurable, describeEnvironment } from './environment.mjs'
import { useDisk } from './folders.mjs'
import { describeError } from './refusal.mjs'
import { columns, formatReport } from './table.mjs'

/** @typedef {Pick<import('./bench.mjs').Options, 'rounds' | 'window' | 'grants' | 'all' | 'takeover'>} Lengths */

/** @typedef {{ name: string, json: boolean, lengths: Partial<Lengths>, postgresSettings: Record<string, string> }} Arguments */

/** How long a bench takes that does not say. @type {Lengths} */
const LENGTHS = { rounds: 5, window: 2_000, grants: 10_000, all: false, takeover: 'ttl' }

/**
 * A module in `benches/`.
 * @typedef {object} BenchModule
 * @property {string} summary
 * @property {readonly ('redis' | 'etcd')[]} servers what it compares with
 * @property {readonly string[]} leftOut peers that it does without, and why
 * @property {Partial<Lengths>} [lengths] where they are not the usual ones
 * @property {Record<string, string>} [settings] of the server that it needs
 * @property {(bench: Bench) => string} [lasts] what is measured for how long, where it is not rounds of short cells
 * @property {(bench: Bench) => Promise<import('./peer.mjs').Description[]>} prepare starts its peers
 * @property {(bench: Bench) => Promise<Result>} measure
 */

/**
 * @typedef {object} Result
 * @property {import('./cells.mjs').Cell[]} cells
 * @property {import('./bars.mjs').Bar[]} bars
 * @property {readonly import('./table.mjs').Column[]} [columns] of the report, where they are not those of cycles
 */

/**
 * Runs one bench from start to clean-up and prints its report.
 * @param {Arguments} options
 * @returns {Promise<number>} the exit code: 0 if every bar was met
 */
export async function runBench({ name, json, lengths, postgresSettings }) {
  cleanUpOnSignals()
  try {
    await useDisk()
    /** @type {BenchModule} */
    const module = await import(`../benches/${name}.mjs`)
    const bench = await Bench.start(module.servers, {
      ...LENGTHS,
      ...module.lengths,
      ...lengths,
      postgresSettings: { ...module.settings, ...postgresSettings },
    })
    assertDurable(bench.postgres)
    const env = await describeEnvironment(bench.postgres)
    console.log(`${name}: ${module.summary}\n`)
    const peers = await module.prepare(bench)
    printSetting(bench, env, peers, module)

    const { cells, bars, columns } = await module.measure(bench)
    console.log(`${formatReport(cells, bars, columns)}\n`)
    if (json) console.log(JSON.stringify({ name, env, cells, bars }))
    return bars.every(bar => bar.ok) ? 0 : 1
  } catch (error) {
    if (!interrupted()) console.error(describeError(error))
    return 1
  } finally {
    await cleanUp()
  }
}

/**
 * @param {Bench} bench
 * @param {Awaited<ReturnType<typeof describeEnvironment>>} env
 * @param {import('./peer.mjs').Description[]} peers
 * @param {BenchModule} module
 */
function printSetting(bench, env, peers, { leftOut, lasts = roundsOfCells }) {
  console.log(`${env.cores} cores, Node ${env.node}, an fsync takes ${env.fsyncMicros} µs`)
  console.log(`${lasts(bench)}\n`)
  const servers = bench.servers.map(([server, { version, settings }]) => [server, version, settings])
  const rows = [...servers, ...peers.map(({ name, version, settings }) => [name, version, settings])]
  for (const line of columns(rows, 'left')) console.log(line)
  for (const peer of leftOut) console.log(`left out: ${peer}`)
  console.log()
}

/** @param {Bench} bench */
const roundsOfCells = ({ rounds, window }) =>
  `${rounds} rounds, ${window / 1000} s a judged cell; figures are medians over the rounds`
