import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { Campaign } from '../campaign.mjs'
import { runFolder } from '../folder.mjs'
import { load } from '../load.mjs'
import { tell } from '../story.mjs'
import { plants } from './index.mjs'

const { check } = await load('checker/index.ts')
const fixed = 'fixed'

/** Whether each named plant was found, on a fixed seed and on a fresh one, or on the given one alone. */
export async function runPlants(name, { seed, folder }) {
  const chosen = name === 'all' ? plants : plants.filter(plant => plant.name === name)
  if (chosen.length === 0)
    throw new Error(`--plant: want all, or one of ${plants.map(plant => plant.name).join(', ')}`)
  const seeds = seed === undefined ? [fixed, randomBytes(4).toString('hex')] : [seed]
  const missed = []
  for (const plant of chosen) {
    for (const own of seeds) {
      const began = performance.now()
      const found = await runPlant(plant, own, folder).catch(error => {
        console.log(error.message)
        return undefined
      })
      const took = ((performance.now() - began) / 1_000).toFixed(0)
      console.log(
        `${plant.name}, seed ${own}: ${found ? `found in ${took} s: ${found}` : `NOT FOUND in ${took} s`}`,
      )
      if (!found) missed.push(`${plant.name} (${own})`)
    }
  }
  console.log(missed.length === 0 ? 'every plant was found' : `not found: ${missed.join(', ')}`)
  return missed.length === 0
}

async function runPlant(plant, seed, parent) {
  const folder = runFolder(parent, `plant-${plant.name}`)
  const campaign = new Campaign({
    seed: `${seed} ${plant.name}`,
    folder,
    workers: 3,
    pair: plant.pair ?? false,
    plant,
  })
  let found
  const look = final => async () => {
    const run = await campaign.record(final).catch(() => undefined)
    const hits = run ? check(run).filter(({ rule }) => plant.rules.includes(rule)) : []
    if (hits.length > 0) found = tell(hits[0])
    return found !== undefined
  }
  try {
    await campaign.start()
    await campaign.run({
      seconds: plant.seconds ?? 36,
      faults: plant.faults,
      counts: {},
      stopEarly: look(undefined),
    })
    if (!found) await look(await campaign.calm())()
    return found
  } finally {
    await campaign.end()
    if (process.env.FENCEPOST_FAULTS_KEEP === undefined) rmSync(folder, { recursive: true, force: true })
  }
}
