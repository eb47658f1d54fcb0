/** A writer: each word on stdin is a turn. Told to dawdle, it waits for another word between the database and the cache. */
import { createInterface } from 'node:readline'
import { Fencepost, FileFencedStore } from 'fencepost'
import pg from 'pg'

const cache = new FileFencedStore(process.argv[2])
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
pool.on('error', () => {})
const fp = new Fencepost({ pool, ttl: '1s', poll: 50 })
const words = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const say = message => console.log(JSON.stringify(message))

async function write(dawdles) {
  await fp.withLock('tea', async lock => {
    const { token } = lock
    // From here on the cache takes nothing from who came before.
    await cache.enter('tea', token)
    const price = await lock.transaction(async client => {
      const { rows } = await client.query(
        "update prices set price = price + 1 where item = 'tea' returning price",
      )
      return rows[0].price
    })
    say({ event: 'committed', price, token: String(token) })
    if (dawdles) await words.next()
    await cache.write('tea', token, String(price))
    say({ event: 'cached', price, token: String(token) })
  })
}

for (;;) {
  const { value: word, done } = await words.next()
  if (done) break
  try {
    await write(word === 'dawdle')
  } catch (error) {
    say({ event: 'refused', refused: error.code })
  }
}
await fp.close()
await pool.end()
