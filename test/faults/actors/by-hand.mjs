import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { now, sleep } from '../history.mjs'

/** Another language's client: the SQL functions, called one by one, on a connection of its own. It never waits in line. */
export const byHand = {
  name: 'by-hand',
  copies: 2,
  plants: ['number-before-wait', 'release-by-key', 'expiry-by-unlocked-read', 'clock-step-ignored'],
  async start(ctx) {
    while (ctx.running) {
      const client = new pg.Client({
        connectionString: ctx.url,
        connectionTimeoutMillis: 3_000,
        query_timeout: 4_000,
      })
      client.on('error', () => {})
      try {
        await client.connect()
        await life(ctx, client)
      } catch (error) {
        ctx.log('connection', 'fail', ctx.id(), { code: error.code, message: error.message })
        await sleep(100)
      } finally {
        client.connection.stream.destroy()
      }
    }
  },
}

async function life(ctx, client) {
  const session = randomUUID()
  const opening = now()
  const [opened] = (
    await client.query("select * from fencepost.open_session($1, '2s', $2)", [session, `${ctx.name} by hand`])
  ).rows
  const hand = {
    client,
    session,
    generation: opened.generation,
    base: opened.token_base,
    server: opened.server_time,
    at: now(),
    sent: opening,
  }
  // Whoever begins right after a step of the server's clock cannot know of it; the others will have said so by then.
  await sleep(700)
  while (ctx.running) {
    if (now() - hand.sent > 600 && !(await beat(hand))) return
    await cycle(ctx, hand)
  }
  await client.query('select fencepost.close_session($1)', [session])
}

const witness = hand => `(${hand.base},${hand.server},${now() - hand.at})`

async function beat(hand) {
  const sent = now()
  const [row] = (
    await hand.client.query('select * from fencepost.heartbeat($1, $2)', [hand.session, witness(hand)])
  ).rows
  if (!row.renewed) return false
  // The first reading of the server's clock stays: were that stepped, this session would judge nobody any more.
  Object.assign(hand, { base: row.token_base, sent })
  return true
}

/** As a holder that trusts nobody has it: 1.8 s after the heartbeat was sent it says that it is lost. */
const trusts = hand => now() - hand.sent < 1_800

async function cycle(ctx, hand) {
  const { random } = ctx
  const place = random.pick([1, 2])
  const key = `by-hand:${place}`
  const id = ctx.id()
  ctx.log('acquire', 'invoke', id, { key, way: 'by hand' })
  let token
  try {
    const { rows } = await hand.client.query(
      'select * from fencepost.acquire($1, $2, $3, $4, $5, $6, seen => $7)',
      [hand.session, hand.generation, [key], [randomUUID()], [false], [id], witness(hand)],
    )
    const [answer] = rows.filter(row => row.request !== null)
    if (answer?.outcome === 'dead') throw new Error('dead')
    token = answer?.outcome === 'granted' && trusts(hand) ? answer.token : undefined
    ctx.log('acquire', token ? 'ok' : 'fail', id, { key, token, code: answer?.outcome })
  } catch (error) {
    ctx.log('acquire', 'unknown', id, { key, code: error.code ?? error.message })
    throw error
  }
  if (!token) return
  if (random.chance(0.2)) await sleep(random.between(0, 10))
  // A holder that says nothing to the server for a while; of one key often, so that somebody nearly always does.
  const until = now() + (random.chance(place === 2 ? 0.1 : 0.002) ? random.between(200, 900) : 0)
  do {
    const asked = now()
    if (trusts(hand)) ctx.log('state', 'ok', id, { key, token, state: 'held', asked })
    if (asked < until) await sleep(20)
  } while (now() < until)
  ctx.log('release', 'invoke', id, { key, token })
  await release(hand, key, token)
  ctx.log('release', 'ok', id, { key, token, outcome: 'released' })
  // A repeated call, as after a lost reply: it must not touch a newer grant.
  if (random.chance(0.2)) await release(hand, key, token)
}

async function release(hand, key, token) {
  const seen = witness(hand)
  await hand.client.query('select * from fencepost.release($1, $2, $3, false, $4)', [
    hand.session,
    [key],
    [token],
    seen,
  ])
}
