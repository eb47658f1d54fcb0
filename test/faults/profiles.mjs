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
    pair: true,
    faults: [...names(clientFaults), ...names(serverFaults)],
  },
  calm: { seconds: 15, runs: 1, workers: 4, pair: false, faults: [] },
}

/** Operations a second on the average, below which a run says little. */
export const leastRate = 200
