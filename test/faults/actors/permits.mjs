import { sleep } from '../history.mjs'
import { ask, giveBack, probe, work } from './section.mjs'
import { write } from './write.mjs'

/** Two semaphores, light requests and heavy ones, of which half never read a token and may be passed on. The second changes its size. */
export const permits = {
  name: 'permits',
  copies: 4,
  plants: [],
  async start(ctx) {
    const sizes = new Map([
      ['permits:1', 5],
      ['permits:2', 6],
    ])
    while (ctx.running) await section(ctx, sizes)
  },
}

async function section(ctx, sizes) {
  const { random } = ctx
  const key = random.pick([...sizes.keys()])
  const size = sizes.get(key)
  const semaphore = ctx.fp.semaphore(key, { permits: size })
  if (key === 'permits:2' && random.chance(0.03)) return await resize(ctx, semaphore, sizes)
  const count = random.chance(0.2) ? size : random.pick([1, 1, 1, 2])
  const way = random.chance(0.15) ? 'tryAcquire' : 'acquire'
  const timeout = random.chance(0.15) ? random.between(1, 60) : 20_000
  // A write needs the token, and permits whose token was read are not passed on.
  const isRead = random.chance(0.5)
  const options = { permits: count, ...(way === 'acquire' && { timeout }) }
  const held = await ask(
    ctx,
    [key],
    { way, mode: 'permits', permits: count },
    label => semaphore[way]({ ...options, label }),
    {
      readsLevel: isRead,
      // Somebody else has changed it.
      refused: ({ code, actual }) => {
        if (code === 'limit_mismatch' && actual) sizes.set(key, actual)
      },
    },
  )
  if (!held) return sleep(random.between(2, 30))
  probe(ctx, held)
  if (random.chance(0.02)) await work(ctx, held, random.between(300, 1_500))
  else if (random.chance(0.5)) await sleep(random.between(0, 10))
  if (isRead && random.chance(0.2)) await write(ctx, 'pin', held)
  probe(ctx, held)
  if (isRead && random.chance(0.1)) await Promise.all([giveBack(ctx, held), write(ctx, 'pin', held)])
  else await giveBack(ctx, held)
  await sleep(random.between(0, 10))
}

async function resize(ctx, semaphore, sizes) {
  const { name: key } = semaphore
  const size = ctx.random.pick([4, 6, 8])
  const id = ctx.id()
  ctx.log('resize', 'invoke', id, { key, permits: size })
  try {
    await semaphore.resize(size)
    sizes.set(key, size)
    ctx.log('resize', 'ok', id, { key, permits: size })
  } catch (error) {
    ctx.log('resize', 'fail', id, { key, code: error?.code ?? String(error) })
    await sleep(50)
  }
}
