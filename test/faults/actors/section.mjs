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
  const about = { way, ...(options.mode && { mode: options.mode }) }
  return await ask(ctx, [key], about, label => ctx.fp[way](key, { ...options, label }), {
    read: lock => [{ key, token: read(lock) }],
  })
}

/**
 * Asks by a function that is given the label, and records it, a line for each key.
 *
 * @param {any} ctx
 * @param {string[]} keys
 * @param {{ mode?: string, permits?: number, way: string }} about
 * @param {(label: string) => Promise<any>} asked
 * @param {{ read?: (lock: any) => { key: string, token: string | undefined }[], refused?: (error: any) => void, readsLevel?: boolean }} [hooks]
 */
export async function ask(ctx, keys, about, asked, hooks = {}) {
  const { read = lock => lock.grants, refused, readsLevel = true } = hooks
  const id = ctx.id()
  const say = (phase, fields) => {
    for (const key of keys) ctx.log('acquire', phase, id, { key, ...about, ...fields })
  }
  say('invoke', {})
  try {
    const lock = await asked(id)
    if (lock === null) {
      say('fail', { code: 'busy' })
      return undefined
    }
    // Taken from the handle as it was answered: a gate may say no already.
    const grants = read(lock)
    const hasLevel = readsLevel && (about.mode === 'shared' || about.mode === 'permits')
    const level = hasLevel ? levelOf(lock) : undefined
    const held = { id, key: keys[0], grants, lock, token: grants[0]?.token, level }
    for (const { key, token } of grants) ctx.log('acquire', 'ok', id, { key, token, level, ...about })
    holding.set(held, { ctx, since: now() })
    return held
  } catch (error) {
    say('fail', { code: error?.code ?? String(error) })
    refused?.(error)
    return undefined
  }
}

/** What a fence compares. Undefined: the handle is lost by now, and does not say. */
export function levelOf(lock) {
  try {
    return String(lock.level)
  } catch {
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
  for (const grant of held.grants)
    ctx.log('state', 'ok', held.id, { ...grant, state, asked: t, reason: held.lock.lossReason })
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
  for (const grant of held.grants) ctx.log('release', 'invoke', held.id, grant)
  const outcome = await held.lock.release()
  for (const grant of held.grants) ctx.log('release', 'ok', held.id, { ...grant, outcome })
}
