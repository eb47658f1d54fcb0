import { sleep } from '../history.mjs'
import { ask, giveBack, probe, take, unread, work } from './section.mjs'
import { write } from './write.mjs'

/** Random sets of several keys in any order, among requests for one of them, shared ones too. */
export const several = {
  name: 'several',
  copies: 4,
  plants: [],
  async start(ctx) {
    while (ctx.running) await section(ctx)
  },
}

const keys = [1, 2, 3, 4, 5, 6, 7].map(place => `several:${place}`)

async function section(ctx) {
  const { random } = ctx
  const held = await (random.chance(0.3) ? one(ctx) : many(ctx))
  if (!held) return sleep(random.between(5, 50))
  probe(ctx, held)
  if (random.chance(0.03)) await work(ctx, held, random.between(300, 1_500))
  else if (random.chance(0.3)) await sleep(random.between(0, 10))
  if (random.chance(0.4) && !held.level && !held.isUnread) await write(ctx, 'guard', random.pick(held.grants))
  probe(ctx, held)
  await giveBack(ctx, held)
  await sleep(random.between(0, 15))
}

const patience = random => (random.chance(0.25) ? random.between(1, 250) : 20_000)

async function one(ctx) {
  const { random } = ctx
  const timeout = patience(random)
  // The others are for the rule that takes a key for one lock.
  if (random.chance(0.4)) return take(ctx, random.pick(keys.slice(0, 2)), { timeout, mode: 'shared' })
  const key = random.pick(keys)
  const isUnread = keys.slice(2, 4).includes(key)
  const held = await take(ctx, key, { timeout }, 'acquire', isUnread ? unread : undefined)
  // Whose token nobody has read is passed on inside the process, under a token that no guard is given.
  return held && Object.assign(held, { isUnread })
}

function many(ctx) {
  const { random } = ctx
  const set = random.shuffled(keys).slice(0, random.pick([2, 2, 3, 4]))
  const way = random.chance(0.15) ? 'tryAcquire' : 'acquire'
  const isAborted = random.chance(0.1)
  const options = {
    ...(way === 'acquire' && { timeout: patience(random) }),
    ...(isAborted && { signal: AbortSignal.timeout(Math.ceil(random.between(1, 250))) }),
  }
  return ask(ctx, set, { way }, label => ctx.fp[way](set, { ...options, label }))
}
