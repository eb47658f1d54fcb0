import { now, sleep } from '../history.mjs'
import { Random } from '../random.mjs'
import { clientFaults } from './client-faults.mjs'
import { serverFaults } from './server-faults.mjs'

/** Lets one lane have the field for a while. */
class Truce {
  #strike = Promise.resolve()
  #truce = Promise.resolve()

  /** A fault of the lane that may be kept waiting. */
  async strike(fault) {
    for (let truce; truce !== this.#truce; await truce) truce = this.#truce
    this.#strike = fault()
    await this.#strike
  }

  /** What runs while that lane does nothing: once its fault is over, and before the next. */
  async hold(work) {
    let end = () => {}
    this.#truce = new Promise(resolve => {
      end = () => resolve(undefined)
    })
    try {
      await this.#strike
      return await work()
    } finally {
      end()
    }
  }
}

/**
 * Strikes with the named faults in an order that the seed decides, in two lanes at once, one for clients and one for
 * the server, until `until`. Each lane goes through its whole list before it repeats any; between two there is calm.
 *
 * @param {any} campaign
 * @param {{ names: readonly string[], seed: string, until: number, counts: Record<string, number>, isOnce?: boolean }} plan
 * `isOnce`: nothing is repeated
 */
export async function strike(campaign, plan) {
  const truce = new Truce()
  const among = list =>
    list.filter(fault => plan.names.includes(fault.name) && (!fault.pair || campaign.options.pair))
  await Promise.all([
    lane(campaign, plan, among(clientFaults), 'client', 900, truce),
    lane(campaign, plan, among(serverFaults), 'server', 2_500, truce),
  ])
}

async function lane(campaign, plan, faults, name, calm, truce) {
  const random = new Random(`${plan.seed} ${name}`)
  while (faults.length > 0) {
    for (const fault of random.shuffled(faults)) {
      await sleep(random.between(calm * 0.5, calm))
      if (now() > plan.until || campaign.stopping) return
      const one = () => once(campaign, plan, fault, random, truce)
      await (name === 'client' ? truce.strike(one) : one())
    }
    if (plan.isOnce) return
  }
}

let number = 0
async function once(campaign, plan, fault, random, truce) {
  const { cluster, log } = campaign
  const worker = random.pick(campaign.workers.filter(fault.strikes ?? (() => true)))
  const id = `fault-${++number}`
  const about = {
    fault: fault.name,
    life: fault.life ?? false,
    ...(serverFaults.includes(fault) ? {} : { target: worker.name }),
  }
  log('fault', 'invoke', id, about)
  try {
    await fault.run({
      worker,
      cluster,
      random,
      respawn: one => campaign.respawn(one),
      again: () => campaign.serverAnswers(),
      withoutClientFaults: work => truce.hold(work),
      bit: (effect, times = 1) => campaign.bitten(effect, times),
      lost: entries => campaign.lose(entries),
    })
    if (fault.life) await campaign.serverAnswers()
    plan.counts[fault.name] = (plan.counts[fault.name] ?? 0) + 1
    log('fault', 'ok', id, about)
  } catch (error) {
    log('fault', 'fail', id, { ...about, message: String(error?.stack ?? error) })
    if (fault.life) await campaign.serverAnswers()
  }
}
