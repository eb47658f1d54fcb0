// node bench/main.mjs NAME: see README.md beside this file.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const folder = fileURLToPath(new URL('.', import.meta.url))
const names = readdirSync(new URL('./benches/', import.meta.url)).map(file => file.replace(/\.mjs$/, ''))

const usage = `usage: npm run bench -- NAME [--json] [--rounds N] [--seconds S] [--grants N] [--all]
  [--takeover ttl|fast] [--postgres NAME=VALUE]...
  NAME is one of: ${names.join(', ')}`

/** @returns {import('./harness/run.mjs').Arguments} */
function readArguments() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      json: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      grants: { type: 'string' },
      all: { type: 'boolean' },
      takeover: { type: 'string' },
      postgres: { type: 'string', multiple: true, default: [] },
    },
  })
  const [name, ...others] = positionals
  if (name === undefined || others.length > 0 || !names.includes(name)) throw new Error('which bench?')
  const seconds = readNumber('seconds', values.seconds, 3_600)
  const lengths = {
    rounds: readNumber('rounds', values.rounds, 1_000, true),
    window: seconds && seconds * 1000,
    grants: readNumber('grants', values.grants, 1_000_000, true),
    all: values.all,
    takeover: readTakeover(values.takeover),
  }
  return {
    name,
    json: values.json,
    lengths: Object.fromEntries(Object.entries(lengths).filter(([, length]) => length !== undefined)),
    postgresSettings: readSettings(values.postgres),
  }
}

/**
 * @param {string} option
 * @param {string | undefined} text undefined: the bench's own
 * @param {number} most
 * @param {boolean} [whole]
 */
function readNumber(option, text, most, whole = false) {
  if (text === undefined) return undefined
  const value = Number(text)
  if (value > 0 && value <= most && (!whole || Number.isInteger(value))) return value
  throw new Error(`--${option} wants ${whole ? 'a whole number from 1' : 'more than 0'} to ${most}`)
}

/** @param {string | undefined} takeover */
function readTakeover(takeover) {
  if (takeover === undefined || takeover === 'ttl' || takeover === 'fast') return takeover
  throw new Error('--takeover wants ttl or fast')
}

/** @param {string[]} settings `NAME=VALUE` each */
function readSettings(settings) {
  return Object.fromEntries(
    settings.map(setting => {
      const [, name, value] = /^([a-z_.]+)=(.*)$/.exec(setting) ?? []
      if (name === undefined || value === undefined) throw new Error('--postgres wants NAME=VALUE')
      return [name, value]
    }),
  )
}

/** The peers are dependencies of this folder alone: whoever installs Fencepost does not install its rivals. */
function installDependencies() {
  if (existsSync(new URL('./node_modules/', import.meta.url))) return
  console.error('installing what the bench compares with …')
  // Not on our stdout: with --json its last line is for a program.
  execFileSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder, stdio: ['ignore', 2, 2] })
}

/** @type {import('./harness/run.mjs').Arguments | undefined} */
let options
try {
  options = readArguments()
} catch (error) {
  console.error(`${/** @type {Error} */ (error).message}\n${usage}`)
  process.exitCode = 64
}
if (options) {
  installDependencies()
  const { runBench } = await import('./harness/run.mjs')
  const code = await runBench(options)
  // All is undone by now; sockets that were reset on both sides are not to keep the process.
  process.stdout.write('', () => process.exit(code))
}
