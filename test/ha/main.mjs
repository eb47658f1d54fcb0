// npm run ha -- [--full] [--only 1,6] [--seed S] [--folder FOLDER]: see docs/high-availability.md.
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { HaCluster, missing } from './cluster/cluster.mjs'
import { isApart, mayBeApart, runApart } from './cluster/sites.mjs'
import { spread } from './figures.mjs'
import { scenarios } from './scenarios/index.mjs'
import { Stage } from './stage.mjs'

const { values: given } = parseArgs({
  options: {
    full: { type: 'boolean', default: false },
    only: { type: 'string' },
    seed: { type: 'string' },
    folder: { type: 'string' },
  },
})

const lacking = missing()
if (lacking.length > 0) {
  console.error(
    `not installed: ${lacking.join(' ')}. On Debian 12: apt-get install --no-install-recommends ${lacking.join(' ')}`,
  )
  process.exit(69)
}
const numbers = given.only?.split(',').map(Number)
const chosen = scenarios.filter(({ number }) => numbers === undefined || numbers.includes(number))
if (chosen.length === 0)
  throw new Error(`--only: want some of ${scenarios.map(({ number }) => number).join(', ')}`)
const seed = given.seed ?? randomBytes(4).toString('hex')
const record = mkdtempSync(join(given.folder ?? tmpdir(), `fencepost-ha-record-${seed}-`))

/** @type {HaCluster | undefined} */
let cluster
let isOver = false
const tearDown = async () => {
  const one = cluster
  cluster = undefined
  await one?.end()
}
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  process.on(signal, async () => {
    if (isOver) return
    isOver = true
    await tearDown()
    process.exit(1)
  })
}

async function standing() {
  if (cluster) return cluster
  const began = performance.now()
  cluster = new HaCluster()
  await cluster.start()
  console.log(`the cluster is up after ${((performance.now() - began) / 1_000).toFixed(0)} s`)
  return cluster
}

let failures = 0
console.log(`seed ${seed}: ${record}`)
try {
  for (const scenario of chosen) {
    if (scenario.isApart && !isApart()) {
      failures += apart(scenario) ? 0 : 1
      continue
    }
    const times = given.full ? 3 : 1
    /** @type {{ seconds: Record<string, number[]>, counts: Record<string, number[]> }} */
    const figures = { seconds: {}, counts: {} }
    let violations = 0
    for (let run = 1; run <= times && !isOver; run++) {
      const name = `${scenario.number}-${run}`
      const found = await once(scenario, name, figures)
      violations += found
      // What a failure leaves is no ground for the next one.
      if (found > 0) await tearDown()
    }
    failures += violations
    const told = [
      ...Object.entries(figures.seconds).map(([what, values]) => `${what}: ${spread(values)}`),
      ...Object.entries(figures.counts).map(([what, values]) => `${what}: ${Math.max(...values)}`),
    ]
    console.log(
      `${scenario.number}. ${scenario.name}: ${violations === 0 ? 'passed' : `${violations} violations`}`,
    )
    for (const line of told) console.log(`   ${line}`)
  }
} finally {
  await tearDown()
}
if (failures === 0 && process.env.FENCEPOST_HA_KEEP === undefined)
  rmSync(record, { recursive: true, force: true })
else console.log(`the record: ${record}`)
// Whatever a broken run has left open is not waited for.
process.exit(failures === 0 ? 0 : 1)

/** @returns {boolean} whether it passed, in a process of its own; or could not be tried */
function apart({ number, name }) {
  if (!mayBeApart()) {
    console.log(`${number}. ${name}: not run, only root may have a network of its own`)
    return true
  }
  const args = [
    '--only',
    String(number),
    '--seed',
    seed,
    '--folder',
    record,
    ...(given.full ? ['--full'] : []),
  ]
  return runApart([fileURLToPath(import.meta.url), ...args])
}

/** Adds a run's values to those of the runs before. */
function note(all, values) {
  for (const [what, value] of Object.entries(values)) all[what] = [...(all[what] ?? []), value]
}

/** One run of a scenario. @returns {Promise<number>} how much of what was promised it has broken */
async function once(scenario, name, figures) {
  /** @type {Stage | undefined} */
  let stage
  /** @type {any} */
  let own
  try {
    own = scenario.own?.()
    await own?.start()
    const stand = own ?? (await standing())
    stage = new Stage(stand, join(record, name), `${seed} ${name}`)
    const measured = await scenario.run(stage, { isFull: given.full })
    const { violations, counts = {} } = measured
    note(figures.seconds, measured.figures)
    note(figures.counts, counts)
    for (const { text } of violations.slice(0, 10)) console.log(`   ${name}: ${text}`)
    return violations.length
  } catch (error) {
    console.log(`   ${name}: ${error?.stack ?? error}`, error?.cause ?? '')
    return 1
  } finally {
    await stage?.end()
    await own?.end()
  }
}
