import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bites, toothless } from './bit.mjs'
import { Campaign } from './campaign.mjs'
import { runFolder } from './folder.mjs'
import { load } from './load.mjs'
import { leastRate, runOf } from './profiles.mjs'
import { account, tell } from './story.mjs'

const { check } = await load('checker/index.ts')
const { availability, operations } = await load('checker/figures.ts')

/** All runs of a profile, each under a seed of its own, and their sum. */
export async function runProfile(name, profile, seed, { quiet, folder }) {
  const say = quiet ? () => {} : text => console.log(text)
  const sum = {
    profile: name,
    seed,
    seconds: 0,
    operations: 0,
    faults: {},
    bit: {},
    violations: [],
    availability: 0,
  }
  for (let i = 0; i < profile.runs; i++) {
    const own = profile.runs === 1 ? seed : `${seed}-${i + 1}`
    const run = await runOnce(runOf(profile, i), own, folder, say)
    say(
      `seed ${own}: ${run.operations} operations in ${run.seconds.toFixed(0)} s, ${run.violations.length} violations`,
    )
    sum.seconds += run.seconds
    sum.operations += run.operations
    sum.availability += run.availability / profile.runs
    sum.violations.push(...run.violations)
    for (const part of ['faults', 'bit']) {
      for (const [key, count] of Object.entries(run[part])) sum[part][key] = (sum[part][key] ?? 0) + count
    }
  }
  for (const [effect, count] of Object.entries(sum.bit)) {
    if (count === 0) sum.violations.push(`no bite: ${effect}`)
  }
  const rate = sum.operations / sum.seconds
  if (rate < leastRate) sum.violations.push(`only ${rate.toFixed(0)} operations a second`)
  sum.seconds = Math.round(sum.seconds)
  sum.availability = Number(sum.availability.toFixed(3))
  return sum
}

async function runOnce(profile, seed, parent, say) {
  const folder = runFolder(parent, `run-${seed}`)
  const campaign = new Campaign({ ...profile, seed, folder })
  const counts = Object.fromEntries(profile.faults.map(fault => [fault, 0]))
  say(`seed ${seed}: ${folder}`)
  try {
    await campaign.start()
    const missing = async () =>
      toothless(await campaign.record(await campaign.tables()), campaign.noted, profile.faults)
    await campaign.run({ ...profile, counts, missing })
    const final = await campaign.calm()
    const run = await campaign.record(final)
    campaign.save(run)
    const violations = check(run)
    for (const line of campaign.serverComplaints())
      violations.push({ rule: 'server-log', at: 0, story: line })
    for (const event of run.events)
      if (event.op === 'fault' && event.phase === 'fail') say(`${event.fault}: ${event.message}`)
    if (violations.length > 0) {
      const stories = violations.slice(0, 30).map(violation => account(violation, run))
      writeFileSync(join(folder, 'story.txt'), `seed ${seed}\n\n${stories.join('\n')}`)
      campaign.keeps = true
    }
    for (const violation of violations.slice(0, 10)) say(tell(violation))
    return {
      seconds: campaign.seconds ?? 0,
      operations: operations(run.events),
      faults: counts,
      bit: bites(run, campaign.noted, profile.faults),
      violations: violations.map(violation => `${seed}: ${tell(violation)} (${folder})`),
      availability: availability(run.events),
    }
  } catch (error) {
    say(String(error?.stack ?? error))
    throw error
  } finally {
    await campaign.end()
    cleanUp(folder, campaign)
  }
}

function cleanUp(folder, campaign) {
  if (process.env.FENCEPOST_FAULTS_KEEP !== undefined || campaign.keeps) return
  try {
    rmSync(folder, { recursive: true, force: true })
  } catch {
    // A log that is still being written.
  }
}
