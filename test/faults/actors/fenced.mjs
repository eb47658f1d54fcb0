import { sleep } from '../history.mjs'
import { giveBack, probe, take, work } from './section.mjs'
import { write } from './write.mjs'

/** Writes that raise the fence of their resource first, some of them long after their lock is gone. */
export const fenced = {
  name: 'fenced',
  copies: 3,
  plants: ['no-fence'],
  async start(ctx) {
    while (ctx.running) await section(ctx)
  },
}

async function section(ctx) {
  const { random } = ctx
  const key = `fenced:${random.pick([1, 2, 3])}`
  const held = await take(ctx, key, { timeout: 20_000 })
  if (!held) return sleep(random.between(5, 50))
  if (random.chance(0.04)) await work(ctx, held, random.between(300, 1_500))
  const committed = await write(ctx, 'fence', held)
  probe(ctx, held)
  await giveBack(ctx, held)
  if (committed && random.chance(0.15)) {
    await sleep(random.between(0, 60))
    await write(ctx, 'fence', held)
  }
  await sleep(random.between(0, 10))
}
