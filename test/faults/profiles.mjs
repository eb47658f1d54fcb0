import { clientFaults } from './faults/client-faults.mjs'
import { serverFaults } from './faults/server-faults.mjs'

const names = list => list.map(fault => fault.name)

/** What `--profile` chooses from: seconds of traffic, the faults, and how many runs, each with a seed of its own. */
export const profiles = {
  ci: {
    seconds: 110,
    runs: 1,
    workers: 4,
    pair: true,
    faults: [...names(clientFaults), ...names(serverFaults)],
  },
  full: {
    seconds: 170,
    runs: 20,
    workers: 4,
    pair: 'every second run',
    faults: [...names(clientFaults), ...names(serverFaults)],
  },
  calm: { seconds: 15, runs: 1, workers: 4, pair: false, faults: [] },
}

/** A run of a profile: on a pair of servers, or on one, without the faults that take two. */
export function runOf(profile, index) {
  const pair = profile.pair === 'every second run' ? index % 2 === 0 : profile.pair
  const alone = names([...clientFaults, ...serverFaults].filter(fault => !fault.pair))
  return {
    ...profile,
    pair,
    faults: pair ? profile.faults : profile.faults.filter(name => alone.includes(name)),
  }
}

/** Operations a second on the average, below which a run says little. */
export const leastRate = 200
