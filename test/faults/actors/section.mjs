import { now, sleep } from '../history.mjs'

/** What is held, for the question that nobody asks who waits for the database. */
const holding = new Map()

setInterval(() => {
  for (const [held, { ctx, since }] of holding) {
    if (now() - since > 150 && !probe(ctx, held) && held.lock.state === 'lost') holding.delete(held)
  }
}, 25).unref()

/**
 * Asks for a key and records it. Undefined: it was not to be had. An actor for whom the token is more than a number in the
 * history reads it from the handle, which is then not passed on inside the process.
 */
export async function take(ctx, key, options = {}, way = 'acquire', read = tokenOf) {
  const id = ctx.id()
  ctx.log('acquire', 'invoke', id, { key, way })
  try {
    const lock = await ctx.fp[way](key, { ...options, label: id })
    if (lock === null) {
      ctx.log('acquire', 'fail', id, { key, code: 'busy' })
      return undefined
    }
    // Taken from the handle as it was answered: a gate may say no already.
    const held = { id, key, lock, token: read(lock) }
    ctx.log('acquire', 'ok', id, { key, token: held.token })
    holding.set(held, { ctx, since: now() })
    return held
  } catch (error) {
    ctx.log('acquire', 'fail', id, { key, code: error?.code ?? String(error) })
    return undefined
  }
}

/** The token of a handle, also of one that is lost by now: a stale write needs it. */
function tokenOf(lock) {
  return /token: (\d+)n/.exec(inspectText(lock))?.[1]
}

/** The same unread. */
export const unread = lock => lock.ownToken

function inspectText(lock) {
  return lock[Symbol.for('nodejs.util.inspect.custom')]()
}

/** Asks a handle whether it is held. The moment recorded lies before the question. */
export function probe(ctx, held) {
  const t = now()
  const { state } = held.lock
  ctx.log('state', 'ok', held.id, {
    key: held.key,
    token: held.token,
    state,
    asked: t,
    reason: held.lock.lossReason,
  })
  return state === 'held' || state === 'degraded'
}

/** Works under it for so long, and asks whether it is still held now and then. */
export async function work(ctx, held, ms) {
  const until = now() + ms
  while (now() < until) {
    await sleep(Math.min(until - now(), 40))
    if (!probe(ctx, held)) return
  }
}

export async function giveBack(ctx, held) {
  holding.delete(held)
  ctx.log('release', 'invoke', held.id, { key: held.key, token: held.token })
  const outcome = await held.lock.release()
  ctx.log('release', 'ok', held.id, { key: held.key, token: held.token, outcome })
}
