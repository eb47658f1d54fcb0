import { now, sleep } from '../history.mjs'
import { writeUnder } from './write.mjs'

/**
 * Candidates of two elections, and an observer beside each. Terms end in every way that they can: by the callback, by a throw, by a
 * resignation, by the signal of `lead`; and some go on working for a while after they were told to stop.
 */
export const election = {
  name: 'election',
  copies: 2,
  plants: ['given-back-undrained'],
  async start(ctx) {
    const key = `election:${ctx.random.pick([1, 2])}`
    const observing = observe(ctx, key)
    while (ctx.running) await candidacy(ctx, key)
    await observing
  },
}

/** Candidates of two elections in which a leader that is gone is found out by its connection. */
export const fastElection = {
  name: 'fast-election',
  copies: 1,
  plants: ['grace-not-awaited', 'trust-not-shortened'],
  async start(ctx) {
    const key = `fast:${ctx.random.pick([1, 2])}`
    while (ctx.running) await candidacy(ctx, key, { takeover: 'fast', grace: '1s' })
  },
}

async function candidacy(ctx, key, options = {}) {
  const { random } = ctx
  const id = ctx.id()
  const election = ctx.fp.election(key, { value: id, ...options })
  ctx.log('candidacy', 'invoke', id, { key, identity: election.identity })
  const ending = new AbortController()
  const until = now() + random.between(500, 9_000)
  const watch = setInterval(() => {
    if (!ctx.running || now() > until) ending.abort()
  }, 50)
  try {
    if (random.chance(0.8)) {
      await election.lead(term => serve(ctx, { key, id, election, term, drains: true }), {
        signal: ending.signal,
        onError: () => {},
      })
    } else {
      const term = await election.campaign({ signal: ending.signal })
      await serve(ctx, { key, id, election, term, drains: false }).catch(() => {})
      await election.resign()
    }
    ctx.log('candidacy', 'ok', id, { key })
  } catch (error) {
    ctx.log('candidacy', 'fail', id, { key, code: error?.code ?? String(error) })
    await sleep(100)
  } finally {
    clearInterval(watch)
  }
}

/** Leads for a while, and says what it is. Under `lead` it may go on for a while after it was told to stop. */
async function serve(ctx, { key, id, election, term, drains }) {
  const { random } = ctx
  const token = String(term.token)
  const about = { key, token }
  ctx.log('elected', 'ok', id, about)
  const until =
    now() + random.pick([random.between(0, 100), random.between(0, 600), random.between(1_500, 4_000)])
  const lasts = drains && random.chance(0.5) ? random.between(0, 300) : 0
  const end = random.next()
  try {
    while (!term.signal.aborted && ctx.running && now() < until) {
      ask(ctx, id, about, election)
      if (random.chance(0.1)) await writeUnder(ctx, { key, token, lock: term })
      await sleep(random.between(5, 40))
    }
    if (drains && end < 0.2) void election.resign()
    if (term.signal.aborted) {
      for (const last = now() + lasts; now() < last; ) {
        ask(ctx, id, about, election)
        if (random.chance(0.2)) await writeUnder(ctx, { key, token, lock: term })
        await sleep(random.between(5, 20))
      }
    }
    if (end > 0.9) throw new Error('now and then')
  } finally {
    ctx.log('ended', 'ok', id, { ...about, reason: term.lock.lossReason })
  }
}

/** The moment recorded lies before the question. */
function ask(ctx, id, about, election) {
  const asked = now()
  ctx.log('leads', 'ok', id, { ...about, state: election.isLeader ? 'leader' : 'follower', asked })
}

/** Keeps what an observer shows, and asks beside it how long the database takes to answer this client. */
async function observe(ctx, key) {
  const id = ctx.id()
  const ending = new AbortController()
  const watch = setInterval(() => {
    if (!ctx.running) ending.abort()
  }, 50)
  const looking = look(ctx, id, key)
  while (ctx.running) {
    try {
      const observer = ctx.fp.election(key).observe({ signal: ending.signal })
      ctx.log('observe', 'invoke', id, { key })
      for await (const leader of observer)
        ctx.log('shown', 'ok', id, { key, token: leader === null ? undefined : leader.token })
    } catch (error) {
      ctx.log('observe', 'fail', id, { key, code: error?.code ?? String(error) })
      await sleep(100)
    }
  }
  clearInterval(watch)
  await looking
}

async function look(ctx, id, key) {
  const election = ctx.fp.election(key)
  while (ctx.running) {
    const asked = now()
    try {
      await election.leader()
      ctx.log('look', 'ok', id, { key, asked })
    } catch {
      // That there is no answer is what is recorded.
    }
    await sleep(100)
  }
}
