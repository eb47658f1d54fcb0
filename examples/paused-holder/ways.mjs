/** How long a lock outlives its holder, in milliseconds: the least that there is. */
export const ttl = 1_000

const read = async client => (await client.query('select value from counter')).rows[0].value
const write = (client, value) => client.query('update counter set value = $1', [value])

/** A transaction whose first statement raises the fence to our token, or is refused. */
async function fenced(pool, token, work) {
  const client = await pool.connect()
  try {
    await client.query('begin')
    await client.query(`select fencepost.fence('counter', $1)`, [token])
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

/** Each adds one to the counter, with time to think between the reading and the writing; throws where it did not. */
export const ways = {
  bare: {
    what: 'a lease, and nothing else',
    async add({ pool, think }) {
      const value = await read(pool)
      await think()
      await write(pool, value + 1)
    },
  },
  alive: {
    what: 'a lease, and "is it still mine?"',
    async add({ pool, lock, think }) {
      const value = await read(pool)
      await think()
      lock.assertHeld()
      await write(pool, value + 1)
    },
  },
  'fenced write': {
    what: 'older tokens are refused on write',
    async add({ pool, token, think }) {
      const value = await read(pool)
      await think()
      const { rowCount } = await pool.query('update counter set value = $1, token = $2 where token <= $2', [
        value + 1,
        token,
      ])
      if (rowCount === 0) throw new Error('a newer token has been here')
    },
  },
  'fenced entry': {
    what: 'the fence is raised before the read',
    isExact: true,
    async add({ pool, token, think }) {
      const value = await fenced(pool, token, read)
      await think()
      await fenced(pool, token, client => write(client, value + 1))
    },
  },
  transaction: {
    what: 'lock.transaction',
    isExact: true,
    async add({ lock, think }) {
      await lock.transaction(async trx => {
        const value = await read(trx)
        await think()
        await write(trx, value + 1)
      })
    },
  },
}
