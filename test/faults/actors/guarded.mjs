import { sleep } from '../history.mjs'
import { giveBack, probe, take, work } from './section.mjs'
import { write, writeUnder } from './write.mjs'

/** Writes in the same database, each pinned to its grant: by `lock.transaction`, or by `assert_held` in plain SQL. */
export const guarded = {
  name: 'guarded',
  copies: 4,
  plants: [
    'no-guard',
    'token-not-compared',
    'handover-without-key-update',
    'newcomer-overtakes',
    'wake-up-lost',
    'passed-on-though-known',
  ],
  async start(ctx) {
    while (ctx.running) await section(ctx)
  },
}

async function section(ctx) {
  const { random } = ctx
  const key = `guarded:${random.pick([1, 2, 3, 4])}`
  const held = await take(ctx, key)
  if (!held) return sleep(random.between(5, 50))
  probe(ctx, held)
  const kind = random.next()
  if (kind < 0.04) await work(ctx, held, random.between(300, 1_500))
  // As a program does that does not look at its handle: nothing but the guard stands between it and the data.
  const pause = random.chance(0.1) ? random.between(0, 30) : 0
  const committed = random.chance(0.5)
    ? await writeUnder(ctx, held, pause)
    : await write(ctx, 'guard', held, pause)
  probe(ctx, held)
  // Not after an unknown outcome: that write may still be under way, and this grant lets both in.
  if (kind < 0.76 || !committed) await giveBack(ctx, held)
  else if (kind < 0.93) {
    await race(ctx, held)
  } else {
    await Promise.all([giveBack(ctx, held), write(ctx, 'guard', held)])
    await sleep(random.between(0, 20))
    await write(ctx, 'pin', held)
  }
  await sleep(random.between(0, 10))
}

/**
 * Pins that race with the release and with each other, some on a snapshot from before it. The key goes in one batch with
 * others that are waited for: all of their rows are locked first, then one after another is handed over, this one last.
 */
async function race(ctx, held) {
  const names = Array.from({ length: 12 }, (_, i) => `crowd:${ctx.name}:${i}`)
  const options = { timeout: 2_000 }
  const crowd = await Promise.all(names.map(name => ctx.fp.acquire(name, options).catch(() => undefined)))
  const next = names.map(name =>
    ctx.fp
      .acquire(name, options)
      .then(lock => lock.release())
      .catch(() => {}),
  )
  let begin = () => {}
  const released = new Promise(resolve => {
    begin = resolve
  })
  const stale = [1, 2].map(() => write(ctx, 'pin', held, 0, released))
  await sleep(ctx.random.between(3, 8))
  const others = [0, 0, 0, 5, 10].map(ms => sleep(ms).then(() => write(ctx, 'pin', held)))
  for (const lock of crowd) void lock?.release()
  await giveBack(ctx, held)
  begin()
  await Promise.all([...stale, ...others, ...next])
}
