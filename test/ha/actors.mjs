// Who holds for long, who stands in line behind, and who asks all the time: what a failover is seen by.
import { alone } from '../faults/actors/alone.mjs'
import { fenced } from '../faults/actors/fenced.mjs'
import { guarded } from '../faults/actors/guarded.mjs'
import { keeper } from '../faults/actors/keeper.mjs'
import { giveBack, probe, take } from '../faults/actors/section.mjs'
import { turns } from '../faults/actors/turns.mjs'
import { sleep } from '../faults/history.mjs'

/** A ttl that outlasts a failover of Patroni. */
const long = '40s'

/** Holds one key from the first moment to the last, or until it is lost, and renews all the time. */
const holder = {
  name: 'holder',
  async start(ctx) {
    const held = await take(ctx, `long:${ctx.name}`, { ttl: long })
    if (!held) return
    while (ctx.running && held.lock.state !== 'lost') {
      const id = ctx.id()
      ctx.log('renew', 'invoke', id, { key: held.key })
      const failure = await held.lock.renew().then(
        () => undefined,
        error => error,
      )
      ctx.log('renew', failure ? 'fail' : 'ok', id, { key: held.key, code: failure?.code })
      probe(ctx, held)
      await sleep(100)
    }
    await giveBack(ctx, held)
  },
}

/** Keeps a key as long as it may by the client's own ttl, and takes it again when that was lost. */
const brief = {
  name: 'brief',
  async start(ctx) {
    while (ctx.running) {
      const held = await take(ctx, `brief:${ctx.name}`)
      while (held && ctx.running && probe(ctx, held)) await sleep(50)
      if (held) await giveBack(ctx, held)
      await sleep(50)
    }
  },
}

/** Stands in line behind the holder of the next process, until that has given back. */
export async function queue(ctx) {
  const held = await take(ctx, `long:${ctx.behind}`, { ttl: long })
  if (!held) return
  probe(ctx, held)
  await sleep(20)
  probe(ctx, held)
  await giveBack(ctx, held)
}

/** Takes keys at once, for long, and holds each until the end or until it is lost. */
export async function grab(ctx, keys) {
  await Promise.all(
    keys.map(async key => {
      const held = await take(ctx, key, { ttl: long })
      if (!held) return
      while (ctx.running && probe(ctx, held)) await sleep(50)
      await giveBack(ctx, held)
    }),
  )
}

/** What runs in every worker of a scenario, each in so many copies. */
export const actors = [
  { ...guarded, copies: 2 },
  { ...fenced, copies: 1 },
  { ...alone, copies: 1 },
  { ...turns, copies: 2 },
  { ...keeper, copies: 1 },
  { ...holder, copies: 1 },
  { ...brief, copies: 1 },
]
