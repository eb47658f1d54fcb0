import { now, sleep } from '../../faults/history.mjs'
import { expectTruthful, figuresOf } from './outcome.mjs'

/** Attempts of one client to connect to one address, in any minute: src/database/attempts.ts. */
const mostAttempts = 255

/** No database at all: the processes live, say so, and go on when it is back; and do not storm it meanwhile. */
export const awayForAMinute = {
  number: 9,
  name: 'no database at all for a minute (ten with --full)',
  async run(stage, { isFull }) {
    const { cluster } = stage
    await stage.start()
    const began = now()
    let back = 0
    await stage.fault(
      'all-killed',
      async () => {
        await Promise.all(cluster.nodes.map(node => node.kill()))
        await sleep(isFull ? 600_000 : 60_000)
        back = now()
        for (const node of cluster.nodes) node.start()
        await cluster.primary()
      },
      { life: true },
    )
    const up = now()
    await sleep(10_000)
    const { events, violations } = await stage.judge(run => {
      expectTruthful(stage, run, began, back)
      for (const name of ['w1', 'w2', 'w3']) {
        const granted = run.events.some(
          ({ op, phase, process, t }) => op === 'acquire' && phase === 'ok' && process === name && t > up,
        )
        stage.expect(granted, `${name} was granted nothing after it`)
        const said = run.events.filter(
          ({ op, process, asked }) =>
            op === 'health' && process === name && asked > began + 2_000 && asked < back - 2_000,
        )
        stage.expect(
          said.length > 10 && said.every(({ reached }) => !reached),
          `${name} said that it reached a database that was not there`,
        )
      }
      const most = mostInAMinute(run.events, began, back)
      stage.expect(most <= mostAttempts, `${most} attempts to connect in a minute`)
    })
    return {
      violations,
      figures: figuresOf(events, back, up),
      counts: {
        'attempts to connect in a minute, the most of any client': mostInAMinute(events, began, back),
      },
    }
  },
}

/** Of any client to any address. */
function mostInAMinute(events, from, to) {
  const times = new Map()
  for (const { op, process, to: address, t } of events) {
    if (op !== 'connect' || t < from || t > to) continue
    const name = `${process} ${address}`
    times.set(name, [...(times.get(name) ?? []), t])
  }
  const counts = [...times.values()].flatMap(list =>
    list.map((t, i) => list.slice(i).filter(later => later < t + 60_000).length),
  )
  return Math.max(0, ...counts)
}
