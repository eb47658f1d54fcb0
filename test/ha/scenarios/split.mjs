import { now, sleep } from '../../faults/history.mjs'
import { HaCluster } from '../cluster/cluster.mjs'
import { Sites } from '../cluster/sites.mjs'
import { expectIncarnations, expectKept, figuresOf } from './outcome.mjs'

/** Two of five sites are cut off from the three others, and the primary with them; one client still reaches it. */
export const split = {
  number: 4,
  name: 'split 2 + 3, the primary on the small side with a client that is connected to it',
  own: () => new HaCluster({ members: 5, sites: new Sites(5) }),
  isApart: true,
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
    const [small, large] = [[old.site, 5], [1, 2, 3, 4].filter(site => site !== old.site)]
    const began = now()
    let demoted = began
    let isWatched = true
    const cut = async () => {
      cluster.sites.split(small, large)
      const watch = (async () => {
        while (isWatched) {
          if (await old.isPrimary()) demoted = now()
          await sleep(20)
        }
      })()
      const next = await cluster.succeeded(old)
      await sleep(5_000)
      isWatched = false
      await watch
      return next
    }
    const { at } = await stage.fault('split', cut, { life: true })
    cluster.sites.heal()
    await cluster.whole()
    let sides = {}
    const { events, violations } = await stage.judge(run => {
      expectIncarnations(stage, run, 1)
      expectKept(stage, run, began)
      stage.expect(demoted < at, 'the old primary took connections as such when the new one did')
      sides = sidesOf(run, began, at)
    })
    return {
      violations,
      figures: {
        ...figuresOf(events, began, at),
        'the small side demotes its primary after': (demoted - began) / 1_000,
      },
      counts: sides,
    }
  },
}

/** What each side has answered after the split, until the other one's first grant and from then on. */
function sidesOf({ events, journal }, began, at) {
  const born = journal.find(({ event, at: since }) => event === 'incarnation' && since > began)
  const grant = journal.find(
    ({ event, seq }) => event === 'granted' && seq > (born?.seq ?? Number.POSITIVE_INFINITY),
  )
  const first = grant?.at ?? at
  const count = (process, op, test) =>
    events.filter(
      event =>
        (process === 'direct') === (event.process === 'direct') &&
        event.op === op &&
        event.phase === 'ok' &&
        test(event),
    ).length
  const before = ({ t }) => t > began && t < first
  const after = ({ t }) => t >= first
  return {
    'small side, until the large side’s first grant: grants': count('direct', 'acquire', before),
    'small side, until then: guarded writes acknowledged': count('direct', 'write', before),
    'small side, from then on: grants': count(
      'direct',
      'acquire',
      event => after(event) && event.t < first + 5_000,
    ),
    'small side, from then on: guarded writes acknowledged': count(
      'direct',
      'write',
      event => after(event) && event.t < first + 5_000,
    ),
    'large side, from its first grant on: grants': count('others', 'acquire', after),
    'large side, from then on: guarded writes acknowledged': count('others', 'write', after),
  }
}
