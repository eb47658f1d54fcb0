import { sleep } from '../history.mjs'
import { giveBack, levelOf, probe, take, work } from './section.mjs'
import { readUnder, write, writeUnder } from './write.mjs'

/** Shared and exclusive locks of the same keys, in one line. Who wrote stays on as a reader, now and then. */
export const readersWriters = {
  name: 'readers-writers',
  copies: 4,
  plants: [],
  async start(ctx) {
    while (ctx.running) await (ctx.random.chance(0.7) ? read(ctx) : change(ctx))
  },
}

// Each key has data of its own, and one protection: a guard knows nothing of fences.
const guarded = ['rw:1', 'rw:2']
const fenced = ['rw:3']
const some = ctx => ctx.random.pick([...guarded, ...fenced])

async function read(ctx) {
  const { random } = ctx
  const options = { mode: 'shared', timeout: random.chance(0.15) ? random.between(1, 60) : 20_000 }
  const held = await take(ctx, some(ctx), options)
  if (!held) return sleep(random.between(5, 50))
  await underShared(ctx, held)
  await sleep(random.between(0, 15))
}

async function change(ctx) {
  const { random } = ctx
  const key = some(ctx)
  const held = await take(ctx, key, { timeout: 20_000 })
  if (!held) return sleep(random.between(5, 50))
  if (random.chance(0.03)) await work(ctx, held, random.between(300, 1_500))
  const isSure = fenced.includes(key)
    ? await write(ctx, 'fence', held)
    : await writeUnder(ctx, held, random.chance(0.1) ? random.between(0, 20) : 0)
  probe(ctx, held)
  if (isSure && random.chance(0.4) && (await downgrade(ctx, held))) await underShared(ctx, held)
  else await giveBack(ctx, held)
  await sleep(random.between(0, 15))
}

/** @returns {Promise<boolean>} whether it is a shared lock now */
async function downgrade(ctx, held) {
  const { key, token, id } = held
  ctx.log('downgrade', 'invoke', id, { key, token })
  try {
    await held.lock.downgrade()
    held.level = levelOf(held.lock)
    ctx.log('downgrade', 'ok', id, { key, token, level: held.level })
    return true
  } catch (error) {
    ctx.log('downgrade', 'fail', id, { key, token, code: error?.code ?? String(error) })
    return false
  }
}

async function underShared(ctx, held) {
  const { random } = ctx
  const { key, token, level } = held
  probe(ctx, held)
  if (random.chance(0.03)) await work(ctx, held, random.between(300, 1_500))
  else if (random.chance(0.3)) await sleep(random.between(0, 10))
  const mark = { key, token: level, holder: token }
  if (fenced.includes(key) && level) await write(ctx, 'mark', mark)
  else if (!fenced.includes(key) && random.chance(0.6)) await readUnder(ctx, held, random.between(0, 8))
  probe(ctx, held)
  await giveBack(ctx, held)
  if (!random.chance(0.1)) return
  // Late: refused once somebody has written since.
  await sleep(random.between(0, 40))
  if (!fenced.includes(key)) await write(ctx, 'pin', held)
  else if (level) await write(ctx, 'mark', { key, token: level })
}
