import { Fencepost } from '../../../dist/index.js'
import { giveBack, take } from '../../faults/actors/section.mjs'
import { now, sleep } from '../../faults/history.mjs'
import { until } from '../cluster/programs.mjs'
import { Restorable } from '../cluster/restorable.mjs'

/** What has a lock in it that was held then: it expires there, and its tokens are above all that its source has ever given. */
export const restored = {
  number: 8,
  name: 'dumped and restored, recovered to a point in time, copied without a recovery signal, while a lock is held',
  own: () => new Restorable(),
  async run(stage) {
    const { cluster } = stage
    const { server } = cluster
    /** @type {Record<string, number>} */
    const figures = {}
    const source = clientOf(stage, cluster.urlOf(server), 'source')
    let highest = 0n
    const rises = ({ token }, who) => {
      stage.expect(BigInt(token) > highest, `${who} was granted token ${token} after ${highest}`)
      highest = BigInt(token)
    }
    // Tokens that no copy knows of: a counter alone would repeat them.
    const spend = async () => {
      for (let i = 0; i < 20; i++) {
        const lock = await take(source, 'k', { timeout: 20_000 })
        rises(lock, 'the source')
        await giveBack(source, lock)
      }
    }
    await spend()
    const held = await take(source, 'k')
    const file = await cluster.dump()
    await cluster.backup()
    await sleep(1_100)
    const [{ moment }] = await cluster.ask('select clock_timestamp()::text as moment', 'app')
    await sleep(1_100)
    await giveBack(source, held)
    await spend()
    const expires = async (what, copy, database = 'app') => {
      const client = clientOf(stage, cluster.urlOf(copy, database), what)
      const since = now()
      const lock = await take(client, 'k', { timeout: 20_000 })
      figures[`${what}: until the lock had expired`] = (now() - since) / 1_000
      stage.expect(lock !== undefined, `${what}: the lock that was held then has not expired`)
      // Copies go on side by side, each by itself: none knows of the others, but each is above what it was made of.
      const before = highest
      if (lock) {
        rises(lock, what)
        await giveBack(client, lock)
      }
      if (copy !== server || database !== 'app') highest = before
      await client.fp.close()
    }
    const another = await cluster.another()
    await cluster.restore(file, another, 'app')
    await expires('a dump in another server', another)
    await spend()
    await cluster.restore(file, server, 'beside')
    await expires('a dump in the same server', server, 'beside')
    const kept = await take(source, 'k')
    await cluster.ask('drop database app with (force)')
    await cluster.restore(file, server, 'app')
    await until(async () => kept.lock.state === 'lost', 'who held is told', 10_000)
    await expires('a dump in place of what was dumped', server)
    await spend()
    await expires('a point in time', await cluster.recovered(moment))
    await spend()
    await take(source, 'k')
    await expires('a copy of the data', await cluster.copied())
    await source.fp.close()
    return { violations: stage.found.map(violation => ({ ...violation, text: violation.story })), figures }
  },
}

function clientOf(stage, url, name) {
  let number = 0
  return {
    fp: new Fencepost({ pool: url, ttl: '3s', owner: name }),
    log: stage.log,
    id: () => `${name}-${++number}`,
  }
}
