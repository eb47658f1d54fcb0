import { sleep } from '../history.mjs'
import { giveBack, probe, take, unread } from './section.mjs'

/** Who does not wait for ever: tries, short timeouts, aborts. */
export const tries = {
  name: 'tries',
  copies: 4,
  plants: ['abort-leaks-ticket', 'run-ends-with-its-first'],
  async start(ctx) {
    while (ctx.running) await attempt(ctx)
  },
}

async function attempt(ctx) {
  const { random } = ctx
  const key = `tries:${random.pick([1, 2])}`
  const way = random.next()
  let held
  if (way < 0.25) held = await take(ctx, key, {}, 'tryAcquire', unread)
  else if (way < 0.6) held = await take(ctx, key, { timeout: random.between(1, 60) }, 'acquire', unread)
  else if (way < 0.9)
    held = await take(
      ctx,
      key,
      { signal: AbortSignal.timeout(Math.ceil(random.between(1, 60))) },
      'acquire',
      unread,
    )
  else held = await take(ctx, key, { timeout: 15_000 }, 'acquire', unread)
  if (!held) return sleep(random.between(0, 20))
  await sleep(random.between(0, 20))
  probe(ctx, held)
  await giveBack(ctx, held)
  await sleep(random.between(0, 10))
}
