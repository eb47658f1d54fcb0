import { now, sleep } from '../../faults/history.mjs'
import { expectIncarnations, expectKept, expectUndisturbed, figuresOf } from './outcome.mjs'

/** Seconds. */
const wrong = 120

/** A standby whose clock runs ahead is promoted, and after it one that runs behind: nobody loses a live lease by it. */
export const wrongClocks = {
  number: 7,
  name: 'a standby whose clock is two minutes ahead is promoted, then one that is two minutes behind',
  async run(stage) {
    const { cluster } = stage
    await cluster.whole()
    const primary = await cluster.primary()
    const [ahead, behind] = cluster.nodes.filter(node => node !== primary)
    if (!ahead.clock.isMovable) throw new Error('without a C compiler (cc) no clock can be moved')
    await setClock(ahead, wrong)
    await setClock(behind, -wrong)
    try {
      await stage.start({ ttl: '30s' })
      const began = now()
      for (const node of [ahead, behind]) {
        const promote = async () => {
          const old = await cluster.primary()
          await cluster.switchover(node)
          await cluster.succeeded(old)
        }
        await stage.fault(`promoted-${node === ahead ? 'ahead' : 'behind'}`, promote, { life: true })
        await sleep(5_000)
        await cluster.whole()
        const offset = await offsetOf(node)
        stage.expect(
          Math.abs(offset) > wrong - 5,
          `the clock of ${node.name} is wrong by ${offset.toFixed(0)} s only`,
        )
      }
      // Longer than a ttl, by the clock that was behind.
      await sleep(12_000)
      const { events, violations } = await stage.judge(run => {
        expectIncarnations(stage, run, 2)
        expectUndisturbed(stage, run)
        expectKept(stage, run, began)
      })
      return { violations, figures: figuresOf(events, began) }
    } finally {
      await setClock(ahead, 0)
      await cluster.whole()
      await setClock(behind, 0)
    }
  },
}

/** While it is down, so that all of its processes have one clock from the beginning. */
async function setClock(node, seconds) {
  await node.end()
  node.clock.move(seconds)
  node.start()
}

async function offsetOf(node) {
  const [{ time }] = await node.query('select extract(epoch from clock_timestamp())::float8 as time')
  return time - Date.now() / 1_000
}
