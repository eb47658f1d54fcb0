/**
 * The data under the lock: a counter, and a journal of who read and wrote it with which token. Each transaction
 * raises the fence first, so the data refuses whoever comes with an older token, whatever that program believes.
 */
import { key } from './setting.mjs'

export async function create(pool) {
  await pool.query(`
    create table counter (value int not null);
    insert into counter values (0);
    create table journal (n serial, holder text, token bigint, did text)`)
}

/** At the start of a section: raises the fence to our token, then reads. */
export function read(pool, holder, token) {
  return fenced(pool, token, async client => {
    await note(client, holder, token, 'read')
    const { rows } = await client.query('select value from counter')
    return rows[0].value
  })
}

/** At its end, long after the read: the same fence decides whether that read still counts. */
export function write(pool, holder, token, value) {
  return fenced(pool, token, async client => {
    await note(client, holder, token, 'wrote')
    await client.query('update counter set value = $1', [value])
  })
}

async function fenced(pool, token, work) {
  const client = await pool.connect()
  try {
    await client.query('begin')
    await client.query('select fencepost.fence($1, $2)', [key, token])
    const result = await work(client)
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}

async function note(client, holder, token, did) {
  await client.query('insert into journal (holder, token, did) values ($1, $2, $3)', [holder, token, did])
}
