import { now, sleep } from '../../faults/history.mjs'
import { Siblings } from '../cluster/siblings.mjs'
import { expectIncarnations, figuresOf } from './outcome.mjs'

/** Two standbys of one parent, neither of which has all, are promoted in turn: they take the same timeline. */
export const sameTimeline = {
  number: 3,
  name: 'two standbys of the same parent are promoted one after the other, with losses',
  own: () => new Siblings(),
  async run(stage) {
    const { cluster } = stage
    const [, second, third] = cluster.servers
    await stage.start({
      replication: 'asynchronous',
      maxTtl: '3s',
      only: ['guarded', 'fenced', 'alone', 'turns', 'keeper'],
    })
    await cluster.isolate(third)
    await sleep(500)
    await cluster.isolate(second)
    await sleep(500)
    const began = now()
    const timelines = []
    for (const server of [second, third]) {
      await stage.fault(`promoted-${timelines.length + 1}`, () => cluster.promote(server), { life: true })
      // Past the quarantine.
      await sleep(8_000)
      const [row] = await cluster.query('select timeline, base from fencepost.cluster')
      timelines.push(row)
    }
    const [first, last] = timelines
    stage.expect(
      first.timeline === last.timeline,
      `the timelines are ${first.timeline} and ${last.timeline}: not the same`,
    )
    stage.expect(BigInt(last.base) > BigInt(first.base), `the base is ${last.base} after ${first.base}`)
    const { events, violations } = await stage.judge(
      run => {
        expectIncarnations(stage, run, 1)
        const lost = stage.lost.filter(({ event }) => event === 'granted')
        stage.expect(lost.length > 0, 'no grant was lost')
      },
      async () => stage.lost.push(...(await cluster.lost())),
    )
    return { violations, figures: figuresOf(events, began) }
  },
}
