import { Bench } from './bench.mjs'
import { cleanUp, cleanUpOnSignals, interrupted } from './cleanup.mjs'
import { assertDurable, describeEnvironment } from './environment.mjs'
import { useDisk } from './folders.mjs'
import { describeError } from './refusal.mjs'
import { columns, formatReport } from './table.mjs'

/** @typedef {import('./bench.mjs').Options & { name: string, json: boolean }} Arguments */

/**
 * A module in `benches/`.
 * @typedef {object} BenchModule
 * @property {string} summary
 * @property {readonly ('redis' | 'etcd')[]} servers what it compares with
 * @property {readonly string[]} leftOut peers that it does without, and why
 * @property {(bench: Bench) => Promise<import('./peer.mjs').Description[]>} prepare starts its peers
 * @property {(bench: Bench) => Promise<Result>} measure
 */

/** @typedef {{ cells: import('./cells.mjs').Cell[], bars: import('./bars.mjs').Bar[] }} Result */

/**
 * Runs one bench from start to clean-up and prints its report.
 * @param {Arguments} options
 * @returns {Promise<number>} the exit code: 0 if every bar was met
 */
export async function runBench({ name, json, ...options }) {
  cleanUpOnSignals()
  try {
    await useDisk()
    /** @type {BenchModule} */
    const module = await import(`../benches/${name}.mjs`)
    const bench = await Bench.start(module.servers, options)
    assertDurable(bench.postgres)
    const env = await describeEnvironment(bench.postgres)
    console.log(`${name}: ${module.summary}\n`)
    const peers = await module.prepare(bench)
    printSetting(bench, env, peers, module.leftOut)

    const { cells, bars } = await module.measure(bench)
    console.log(`${formatReport(cells, bars)}\n`)
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
 * @param {readonly string[]} leftOut
 */
function printSetting(bench, env, peers, leftOut) {
  console.log(`${env.cores} cores, Node ${env.node}, an fsync takes ${env.fsyncMicros} µs`)
  console.log(
    `${bench.rounds} rounds, ${bench.window / 1000} s a judged cell; figures are medians over the rounds\n`,
  )
  const servers = bench.servers.map(([server, { version, settings }]) => [server, version, settings])
  const rows = [...servers, ...peers.map(({ name, version, settings }) => [name, version, settings])]
  for (const line of columns(rows, 'left')) console.log(line)
  for (const peer of leftOut) console.log(`left out: ${peer}`)
  console.log()
}
