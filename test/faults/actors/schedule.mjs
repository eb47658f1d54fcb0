import { now, sleep } from '../history.mjs'

/** Milliseconds: a server's clock that was ahead, and is set back, keeps a schedule from its slots until then. */
const age = 20_000
const names = ['a', 'b', 'c', 'd', 'e']

/** Schedules of each second that every process runs, others every 20 s: ticks last, some fail, some are tried again. */
export const schedule = {
  name: 'schedule',
  copies: 1,
  plants: ['lease-not-asserted'],
  async start(ctx) {
    while (ctx.running) {
      const round = Math.floor(now() / age)
      const started = await Promise.all(
        names.map((name, i) => begin(ctx, `ticks ${round} ${name}`, i % 2 === 0)),
      )
      const handles = started.filter(handle => handle !== undefined)
      while (handles.length > 0 && ctx.running && Math.floor(now() / age) === round) await sleep(50)
      await Promise.all(handles.map(handle => handle.stop()))
    }
  },
}

/** Undefined: the database was away. */
async function begin(ctx, key, again) {
  const options = again
    ? {
        missed: 'all',
        overlap: 'queue',
        retry: { attempts: 3, backoff: '50ms' },
        timeout: '3s',
        onError() {},
      }
    : { onError() {} }
  try {
    return await ctx.fp.schedule(key, '* * * * * *', tick => run(ctx, key, tick), options)
  } catch {
    await sleep(200)
    return undefined
  }
}

async function run(ctx, key, { slot, attempt, lock }) {
  const id = ctx.id()
  const about = { key, slot: slot.toISOString(), attempt, token: lock.ownToken }
  ctx.log('tick', 'invoke', id, about)
  await sleep(ctx.random.between(0, 950))
  const failed = ctx.random.chance(0.2)
  ctx.log('tick', failed ? 'fail' : 'ok', id, about)
  if (failed) throw new Error('on purpose')
}
