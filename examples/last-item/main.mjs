/**
 * Two hundred buyers and one item, in four ways: `npm run example -- last-item`. Nobody pauses here, so that each of them
 * sells it once; what differs is what it costs, and what it would be worth if somebody did (see paused-holder).
 * Exit code 0: each sold the item once. 1: not so.
 */
import { Fencepost } from 'fencepost'
import { withServer } from '../server.mjs'

const buyers = 200

process.exitCode = await withServer(async ({ pool }) => {
  const fp = new Fencepost({ pool })
  await pool.query('create table item (left_over int); create table sales (buyer int)')
  console.log('way                                    sold     time   a paused holder')
  let isGood = true
  for (const { what, buy, worth } of ways(fp, pool)) {
    await pool.query('truncate item, sales; insert into item values (1)')
    const began = performance.now()
    await Promise.all(Array.from({ length: buyers }, (_, buyer) => buy(buyer)))
    const took = performance.now() - began
    const { rows } = await pool.query('select (select count(*)::int from sales) as sold, left_over from item')
    isGood &&= rows[0].sold === 1 && rows[0].left_over === 0
    console.log(
      `${what.padEnd(38)} ${String(rows[0].sold).padStart(4)} ${took.toFixed(0).padStart(5)} ms   ${worth}`,
    )
  }
  await fp.close()
  return isGood ? 0 : 1
})

function ways(fp, pool) {
  return [
    {
      what: 'a lease, and nothing else',
      worth: 'sells it twice',
      buy: buyer => fp.withLock('item', () => sell(pool, buyer)),
    },
    {
      what: 'a row lock: select … for update',
      worth: 'keeps all waiting until its connection is cut',
      buy: buyer => inTransaction(pool, 'read committed', client => sell(client, buyer, 'for update')),
    },
    {
      what: 'serializable, tried again',
      worth: 'is refused',
      buy: buyer => again(() => inTransaction(pool, 'serializable', client => sell(client, buyer))),
    },
    {
      what: 'a guard: withLock + lock.transaction',
      worth: 'is ended, and the next one is let in',
      buy: buyer => fp.withLock('item', lock => lock.transaction(client => sell(client, buyer))),
    },
  ]
}

async function sell(client, buyer, suffix = '') {
  const { rows } = await client.query(`select left_over from item ${suffix}`)
  if (rows[0].left_over === 0) return
  await client.query('update item set left_over = $1', [rows[0].left_over - 1])
  await client.query('insert into sales values ($1)', [buyer])
}

async function inTransaction(pool, level, work) {
  const client = await pool.connect()
  try {
    await client.query(`begin isolation level ${level}`)
    await work(client)
    await client.query('commit')
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}

async function again(work) {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (error.code !== '40001') throw error
    }
  }
}
