// npm run faults -- [--profile ci|full|calm] [--seed S] [--seconds N] [--folder F] [--json] | --plant NAME|all | --replay FOLDER
import { randomBytes } from 'node:crypto'
import { parseArgs } from 'node:util'
import { saved } from './campaign.mjs'
import { load } from './load.mjs'
import { runPlants } from './plants/run.mjs'
import { profiles } from './profiles.mjs'
import { runProfile } from './run.mjs'
import { tell } from './story.mjs'

const { values: given } = parseArgs({
  options: {
    profile: { type: 'string', default: 'ci' },
    seed: { type: 'string' },
    seconds: { type: 'string' },
    runs: { type: 'string' },
    faults: { type: 'string' },
    actors: { type: 'string' },
    plant: { type: 'string' },
    replay: { type: 'string' },
    folder: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
})

const seed = given.seed ?? randomBytes(4).toString('hex')
if (given.replay !== undefined) {
  const { check } = await load('checker/index.ts')
  const violations = check(saved(given.replay))
  for (const violation of violations.slice(0, 50)) console.log(tell(violation))
  console.log(`${violations.length} violations`)
  process.exitCode = violations.length > 0 ? 1 : 0
} else if (given.plant !== undefined) {
  process.exitCode = (await runPlants(given.plant, { seed: given.seed, folder: given.folder })) ? 0 : 1
} else {
  const profile = profiles[given.profile]
  if (!profile) throw new Error(`--profile: want one of ${Object.keys(profiles).join(', ')}`)
  const chosen = {
    ...profile,
    ...(given.seconds && { seconds: Number(given.seconds) }),
    ...(given.runs && { runs: Number(given.runs) }),
    ...(given.faults && { faults: given.faults.split(',') }),
    ...(given.actors && { actors: given.actors.split(',') }),
  }
  const result = await runProfile(given.profile, chosen, seed, { quiet: given.json, folder: given.folder })
  console.log(JSON.stringify(result))
  process.exitCode = result.violations.length > 0 ? 1 : 0
}
// Whatever a broken run has left open is not waited for.
process.exit()
