import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { sleep } from '../history.mjs'

/**
 * A client in plain SQL that sleeps past its ttl with a guarded transaction open, so that its row outlives its death,
 * and renews itself when it wakes up.
 */
export const sleeper = {
  name: 'sleeper',
  copies: 1,
  plants: ['renewal-revives'],
  async start(ctx) {
    while (ctx.running) {
      const clients = [1, 2].map(
        () =>
          new pg.Client({ connectionString: ctx.url, connectionTimeoutMillis: 3_000, query_timeout: 4_000 }),
      )
      for (const client of clients) client.on('error', () => {})
      try {
        await Promise.all(clients.map(client => client.connect()))
        await nap(ctx, clients)
      } catch {
        await sleep(100)
      } finally {
        for (const client of clients) client.connection.stream.destroy()
      }
    }
  },
}

async function nap(ctx, [client, guarding]) {
  const [session, id, key] = [randomUUID(), ctx.id(), `sleeper:${ctx.name}`]
  const owner = `${ctx.name} asleep`
  const { rows } = await client.query("select * from fencepost.open_session($1, '1s', $2)", [session, owner])
  ctx.log('acquire', 'invoke', id, { key, way: 'by hand' })
  const token = await take(ctx, client, { session, id, key, generation: rows[0].generation })
  if (token) {
    await guarding.query('begin')
    await guarding.query('select fencepost.assert_held($1, $2)', [key, token])
    await sleep(2_600)
    await client.query('select * from fencepost.heartbeat($1)', [session])
    await guarding.query('rollback')
  }
  await client.query('select * from fencepost.close_session($1)', [session])
}

async function take(ctx, client, { session, id, key, generation }) {
  const values = [session, generation, [key], [randomUUID()], [false], [id]]
  try {
    const acquired = await client.query('select * from fencepost.acquire($1, $2, $3, $4, $5, $6)', values)
    const { token, outcome } = acquired.rows[0]
    ctx.log('acquire', token ? 'ok' : 'fail', id, { key, token, code: outcome })
    return token
  } catch (error) {
    ctx.log('acquire', 'unknown', id, { key, code: error.code ?? error.message })
    throw error
  }
}
