import { sleep } from '../history.mjs'
import { giveBack, probe, take, unread } from './section.mjs'

/** Hot keys: several of each process want them all the time, and take turns within it. */
export const turns = {
  name: 'turns',
  copies: 4,
  plants: ['asked-anew-past-the-line'],
  async start(ctx) {
    while (ctx.running) {
      const key = `turns:${ctx.random.pick([1, 2, 3])}`
      const held = await take(ctx, key, {}, 'acquire', unread)
      if (held) {
        probe(ctx, held)
        if (ctx.random.chance(0.3)) await sleep(ctx.random.between(0, 5))
        await giveBack(ctx, held)
      }
      await sleep(held && ctx.random.chance(0.7) ? ctx.random.between(0, 3) : ctx.random.between(5, 40))
    }
  },
}
