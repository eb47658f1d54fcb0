import { now, sleep } from '../../faults/history.mjs'
import { expectIncarnations, expectKept, expectTruthful, figuresOf } from './outcome.mjs'

/** Milliseconds: longer than Patroni's ttl of 20 s. */
const standsStill = 27_000

/** Patroni, its PostgreSQL and all backends stand still, and go on when another leads; one client is connected straight to it. */
export const stoppedPrimary = {
  number: 5,
  name: 'the primary stands still for longer than Patroni’s ttl, and goes on',
  async run(stage) {
    const { cluster } = stage
    await stage.start()
    const old = await cluster.primary()
    await stage.hire({
      name: 'direct',
      url: old.url,
      wakes: true,
      ttl: '3s',
      only: ['guarded', 'fenced', 'keeper', 'turns'],
    })
    await sleep(2_000)
    const began = now()
    const stop = async () => {
      old.stop()
      return await cluster.succeeded(old)
    }
    const { at } = await stage.fault('primary-stopped', stop, { life: true })
    await sleep(began + standsStill - now())
    let demoted = 0
    await stage.fault('primary-goes-on', async () => {
      const since = now()
      old.cont()
      while (now() < since + 8_000) {
        if (await old.isPrimary()) demoted = now() - since
        await sleep(20)
      }
    })
    await cluster.whole()
    const { events, violations } = await stage.judge(run => {
      expectIncarnations(stage, run, 1)
      expectKept(stage, run, began)
      expectTruthful(stage, run, began, at)
    })
    return {
      violations,
      figures: {
        ...figuresOf(events, began, at),
        'the old one took connections as a primary': demoted / 1_000,
      },
    }
  },
}
