import { sleep } from '../history.mjs'
import { giveBack, probe, take } from './section.mjs'

/** Keys that nobody else wants, several at once: what Fencepost does in batches. */
export const alone = {
  name: 'alone',
  copies: 1,
  plants: [],
  async start(ctx) {
    let round = 0
    while (ctx.running) {
      const keys = [1, 2, 3, 4].map(place => `alone:${ctx.name}:${(round + place) % 8}`)
      const held = (await Promise.all(keys.map(key => take(ctx, key)))).filter(one => one !== undefined)
      for (const one of held) probe(ctx, one)
      await Promise.all(held.map(one => giveBack(ctx, one)))
      await sleep(ctx.random.between(20, 60))
      round++
    }
  },
}
