import { spawnSync } from 'node:child_process'
import { parseArgs } from 'node:util'

const usage = `npm run explore -- [--depth N] [--kills N] [PROGRAM]

Tries every interleaving of the programs whose names contain PROGRAM, or of all.
  --depth N   how often an actor that could go on is left standing for another (default 2)
  --kills N   how many backends are terminated in one schedule, at any gate or about a commit (default 0)`

const { values, positionals } = parseArgs({
  options: {
    depth: { type: 'string', default: '2' },
    kills: { type: 'string', default: '0' },
    help: { type: 'boolean' },
  },
  allowPositionals: true,
})
const isCount = text => /^\d+$/.test(text)
if (values.help || !isCount(values.depth) || !isCount(values.kills) || positionals.length > 1) {
  console.log(usage)
  process.exit(values.help ? 0 : 2)
}

const filter = positionals.length > 0 ? ['-t', positionals[0]] : []
const { status } = spawnSync(
  'npx',
  [
    'vitest',
    'run',
    'test/explorer/lines.test.ts',
    'test/explorer/sessions.test.ts',
    'test/explorer/synchronous.test.ts',
    'test/explorer/forced.test.ts',
    'test/explorer/runs.test.ts',
    'test/explorer/readers.test.ts',
    'test/explorer/several.test.ts',
    'test/explorer/passing.test.ts',
    'test/explorer/schedules.test.ts',
    ...filter,
  ],
  {
    stdio: 'inherit',
    env: { ...process.env, FENCEPOST_EXPLORE_DEPTH: values.depth, FENCEPOST_EXPLORE_KILLS: values.kills },
  },
)
process.exit(status ?? 1)
