import { sleep } from '../history.mjs'

const ways = {
  pin: 'select fencepost.assert_held($1, $2)',
  guard: 'select fencepost.assert_held($1, $2)',
  fence: 'select fencepost.fence($1, $2)',
  mark: 'select fencepost.fence($1, $2)',
}

/** SQLSTATEs of a commit that say for certain that nothing was committed. */
const refused = /^(40|23|25P02|FP)/

/**
 * Reads a counter and writes it one higher, in a transaction of the user's own whose first statement is the guard or
 * the fence. Its outcome is unknown only where the commit was sent and not answered.
 *
 * @param {'guard' | 'fence' | 'pin' | 'mark'} kind `pin`: the guard alone, and a line in the ledger that counts nothing; `mark`:
 * the fence alone
 * @param {{ key: string, token: string, holder?: string }} held `token`: what is compared; `holder`: the token of the grant, where
 * that is another
 * @param {Promise<void>} [since] with a snapshot from before that
 * @returns {Promise<boolean>} whether it was committed
 */
export async function write(ctx, kind, held, pause = 0, since = undefined) {
  const { key, token, holder } = held
  const id = ctx.id()
  ctx.log('write', 'invoke', id, { key, token, kind })
  let client
  let committing = false
  try {
    client = await ctx.pool.connect()
    const isOnSnapshot = since !== undefined || ctx.random.chance(0.25)
    await client.query(isOnSnapshot ? 'begin isolation level repeatable read' : 'begin')
    if (since !== undefined) {
      await client.query('select 1')
      await since
    }
    await client.query(ways[kind], [key, token])
    await readAndWrite(client, id, kind, held, pause)
    committing = true
    const { command } = await client.query('commit')
    ctx.log('write', command === 'COMMIT' ? 'ok' : 'fail', id, { key, token, kind, code: command })
    client.release()
    return command === 'COMMIT'
  } catch (error) {
    const unknown = committing && !refused.test(error.code ?? '')
    ctx.log('write', unknown ? 'unknown' : 'fail', id, {
      key,
      token,
      holder,
      kind,
      code: error.code ?? error.message,
    })
    if (!client) await sleep(50)
    else await putBack(client, /^(FP|40)/.test(error.code ?? ''))
    return false
  }
}

/**
 * The same by `lock.transaction`, which promises that nothing was written whatever it throws, but for one error.
 *
 * @param {{ key: string, token: string, lock: any }} held
 */
export async function writeUnder(ctx, held, pause = 0) {
  const { key, token, lock } = held
  const id = ctx.id()
  ctx.log('write', 'invoke', id, { key, token, kind: 'guard', way: 'transaction' })
  try {
    const isolationLevel = ctx.random.pick(['read committed', 'read committed', 'repeatable read'])
    await lock.transaction(client => readAndWrite(client, id, 'guard', held, pause), { isolationLevel })
    ctx.log('write', 'ok', id, { key, token, kind: 'guard' })
    return true
  } catch (error) {
    const phase = error?.code === 'commit_unknown' ? 'unknown' : 'fail'
    ctx.log('write', phase, id, { key, token, kind: 'guard', code: error?.code ?? error?.message })
    return false
  }
}

/**
 * Reads under a pin that others may have beside it: the counter twice, and a line in the ledger.
 *
 * @param {{ key: string, token: string, lock: any }} held
 */
export async function readUnder(ctx, held, pause = 0) {
  const { key, token, lock } = held
  const id = ctx.id()
  ctx.log('write', 'invoke', id, { key, token, kind: 'pin', way: 'transaction' })
  try {
    const seen = await lock.transaction(async client => {
      const first = await counterOf(client, key)
      await readAndWrite(client, id, 'pin', held, 0)
      if (pause > 0) await sleep(pause)
      return [first, await counterOf(client, key)]
    })
    ctx.log('write', 'ok', id, { key, token, kind: 'pin', seen })
    return true
  } catch (error) {
    const phase = error?.code === 'commit_unknown' ? 'unknown' : 'fail'
    ctx.log('write', phase, id, { key, token, kind: 'pin', code: error?.code ?? error?.message })
    return false
  }
}

async function counterOf(client, key) {
  const { rows } = await client.query('select value from data.counters where key = $1', [key])
  return rows[0].value
}

async function readAndWrite(client, id, kind, { key, token }, pause) {
  const seen = kind === 'pin' || kind === 'mark' ? '0' : await raise(client, key, pause)
  await client.query('insert into data.ledger values ($1, $2, $3, $4, $5)', [id, key, kind, token, seen])
}

async function raise(client, key, pause) {
  const value = await counterOf(client, key)
  if (pause > 0) await sleep(pause)
  await client.query('update data.counters set value = $2 where key = $1', [key, String(BigInt(value) + 1n)])
  return value
}

/** A connection whose transaction was refused can be used again; of any other nobody knows. */
async function putBack(client, refused) {
  try {
    if (refused) await client.query('rollback')
    client.release(!refused)
  } catch {
    client.release(true)
  }
}
