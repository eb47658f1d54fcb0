import { now, sleep } from '../../faults/history.mjs'
import { lossesOf } from '../figures.mjs'
import { expectIncarnations, expectKept, expectTruthful, figuresOf } from './outcome.mjs'

/** As when its machine loses power. */
export const killedPrimary = {
  number: 1,
  name: 'the primary is killed under load, synchronous replication',
  async run(stage) {
    const { cluster } = stage
    await stage.start()
    const old = await cluster.primary()
    const began = now()
    const kill = async () => {
      await old.kill()
      return await cluster.succeeded(old)
    }
    const { at } = await stage.fault('primary-killed', kill, { life: true })
    await sleep(8_000)
    old.start()
    const { events, violations } = await stage.judge(run => {
      expectIncarnations(stage, run, 1)
      expectKept(stage, run, began)
      expectTruthful(stage, run, began, at)
      // Of those whose ttl of 3 s is shorter than the failover.
      const told = [...lossesOf(run.events, /^(?!long:)/).values()]
      stage.expect(
        told.includes('unreachable'),
        'nobody was told of a loss, though the ttl was shorter than the failover',
      )
    })
    return { violations, figures: figuresOf(events, began, at) }
  },
}
