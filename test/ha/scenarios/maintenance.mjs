import { now, sleep } from '../../faults/history.mjs'
import { grantsAway, renewalsAway } from '../figures.mjs'
import { expectIncarnations, expectKept, expectUndisturbed } from './outcome.mjs'

/** What people do on purpose: nobody loses anything at a ttl of 60 s. */
export const maintenance = {
  number: 6,
  name: 'switchover, rolling restart, restart of PgBouncer and of HAProxy',
  async run(stage) {
    const { cluster } = stage
    await stage.start({ ttl: '60s' })
    const began = now()
    /** @type {Record<string, [number, number]>} */
    const steps = {}
    const step = async (name, work, options) => {
      const since = now()
      await stage.fault(name, work, options)
      await sleep(3_000)
      steps[name] = [since, now()]
    }
    await step(
      'switchover',
      async () => {
        const old = await cluster.primary()
        await cluster.switchover(await cluster.nodeOf('sync_standby'))
        await cluster.succeeded(old)
      },
      { life: true },
    )
    await cluster.whole()
    const primary = await cluster.primary()
    for (const node of cluster.nodes.filter(one => one !== primary)) {
      await step(`restart of a standby, ${node.name}`, () => restart(node))
      await cluster.whole()
    }
    await step('restart of the primary', () => restart(primary), { life: true })
    await cluster.whole()
    await step('restart of PgBouncer', async () => {
      await cluster.bouncer.end('SIGTERM')
      cluster.startBouncer()
    })
    await step('restart of HAProxy', async () => {
      await cluster.haproxy.end('SIGTERM')
      cluster.startHaproxy()
    })
    const { events, violations } = await stage.judge(run => {
      expectIncarnations(stage, run, 1)
      expectUndisturbed(stage, run)
      expectKept(stage, run, began)
    })
    const figures = Object.entries(steps).flatMap(([name, [since, until]]) => {
      const during = events.filter(({ t }) => t < until)
      return [
        [`${name.replace(/, node.*/, '')}: no new grant`, grantsAway(during, since)],
        [`${name.replace(/, node.*/, '')}: no renewal`, renewalsAway(during, since)],
      ]
    })
    return { violations, figures: Object.fromEntries(figures) }
  },
}

async function restart(node) {
  const answer = await node.ask('/restart', { method: 'POST', body: '{}' })
  if (!answer.ok) throw new Error(`restart of ${node.name}: ${answer.status} ${await answer.text()}`)
}
