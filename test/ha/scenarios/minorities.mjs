import { now, sleep } from '../../faults/history.mjs'
import { until } from '../cluster/programs.mjs'
import { grantsAway, renewalsAway } from '../figures.mjs'
import { redlockBeside } from '../redlock.mjs'
import { expectKept, expectUndisturbed } from './outcome.mjs'

/** One of those who are waited for is gone, and one of those who decide: the rest is enough, and nobody is refused. */
export const minorities = {
  number: 0,
  name: 'the synchronous standby is killed, then one etcd member of three',
  async run(stage) {
    const { cluster } = stage
    await stage.start({ ttl: '30s' })
    const standby = await cluster.nodeOf('sync_standby')
    const began = now()
    await stage.fault('standby-killed', async () => {
      await standby.kill()
      await sleep(10_000)
    })
    const between = now()
    const member = await until(() => cluster.etcd.leader(), 'etcd has a leader')
    await stage.fault('etcd-leader-killed', async () => {
      await member.program.end('SIGKILL')
      await sleep(10_000)
    })
    const over = now()
    standby.start()
    cluster.etcd.startMember(member)
    const { events, violations } = await stage.judge(run => {
      expectUndisturbed(stage, run)
      expectKept(stage, run, began)
    })
    const during = (from, to, figure) =>
      figure(
        events.filter(({ t }) => t < to),
        from,
      )
    return {
      violations,
      figures: {
        'the standby gone: longest stall of grants': during(began, between, grantsAway),
        'the standby gone: longest stall of renewals': during(began, between, renewalsAway),
        'etcd’s leader gone: longest stall of grants': during(between, over, grantsAway),
        'etcd’s leader gone: longest stall of renewals': during(between, over, renewalsAway),
        ...(await redlockBeside(cluster)),
      },
    }
  },
}
