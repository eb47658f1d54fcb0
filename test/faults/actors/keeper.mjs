import { sleep } from '../history.mjs'
import { giveBack, take, work } from './section.mjs'

/** Keeps a key for a while, as a long task does: its handle is believed in though nothing is asked of the database. */
export const keeper = {
  name: 'keeper',
  copies: 2,
  plants: ['no-quarantine'],
  async start(ctx) {
    const { random } = ctx
    while (ctx.running) {
      const held = await take(ctx, `kept:${Math.floor(random.between(1, 9))}`, { timeout: 5_000 })
      if (held) {
        await work(ctx, held, random.between(200, 1_200))
        await giveBack(ctx, held)
      }
      await sleep(random.between(5, 50))
    }
  },
}
