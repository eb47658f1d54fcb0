import { sleep } from '../history.mjs'

const ways = {
  guard: 'select fencepost.assert_held($1, $2)',
  fence: 'select fencepost.fence($1, $2)',
}

/** SQLSTATEs of a commit that say for certain that nothing was committed. */
const refused = /^(40|23|25P02|FP)/

/**
 * Reads a counter and writes it one higher, in a transaction of the user's own whose first statement is the guard or
 * the fence. Its outcome is unknown only where the commit was sent and not answered.
 *
 * @param {'guard' | 'fence'} kind
 * @param {{ key: string, token: string }} held
 */
export async function write(ctx, kind, held, pause = 0) {
  const { key, token } = held
  const id = ctx.id()
  ctx.log('write', 'invoke', id, { key, token, kind })
  let client
  let committing = false
  try {
    client = await ctx.pool.connect()
    await client.query(ctx.random.chance(0.25) ? 'begin isolation level repeatable read' : 'begin')
    await client.query(ways[kind], [key, token])
    const { rows } = await client.query('select value from data.counters where key = $1', [key])
    const seen = rows[0].value
    if (pause > 0) await sleep(pause)
    await client.query('update data.counters set value = $2 where key = $1', [key, String(BigInt(seen) + 1n)])
    await client.query('insert into data.ledger values ($1, $2, $3, $4, $5)', [id, key, kind, token, seen])
    committing = true
    const { command } = await client.query('commit')
    ctx.log('write', command === 'COMMIT' ? 'ok' : 'fail', id, { key, token, kind, code: command })
    client.release()
  } catch (error) {
    const unknown = committing && !refused.test(error.code ?? '')
    ctx.log('write', unknown ? 'unknown' : 'fail', id, { key, token, kind, code: error.code ?? error.message })
    if (!client) ctx.counts.poolTimeouts++
    else if (/^(FP|40)/.test(error.code ?? '')) await client.query('rollback').then(() => client.release(), () => client.release(true))
    else client.release(true)
    if (!client) await sleep(50)
  }
}
