/**
 * A cache that is written through by one writer at a time: `npm run example -- single-writer`. Three processes take turns on
 * a lock; each commits a new price to the database, and then puts it into a cache outside of it. One of them is stopped
 * between the two for longer than its lock lasts, and goes on where it was when the others have written.
 *
 * The cache takes values in the order of their tokens alone. Exit code 0: the late value was refused, and the cache says at
 * the end what the database says. 1: not so.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FileFencedStore } from 'fencepost'
import { Process } from '../process.mjs'
import { withServer } from '../server.mjs'

const script = new URL('worker.mjs', import.meta.url)

process.exitCode = await withServer(async ({ url, pool }) => {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-example-'))
  const cache = new FileFencedStore(folder)
  await pool.query(
    `create table prices (item text primary key, price int); insert into prices values ('tea', 100)`,
  )
  const [slow, ...others] = ['Ada', 'Ben', 'Cleo'].map(name => ({
    name,
    process: new Process(script, url, folder),
  }))
  try {
    const first = await write(slow)
    console.log(
      `${slow.name} has written ${first.price}, to the database and to the cache, token ${first.token}`,
    )
    slow.process.tell('dawdle')
    const late = await slow.process.next('committed')
    slow.process.signal('SIGSTOP')
    console.log(
      `${slow.name} has committed ${late.price}, token ${late.token}, and is stopped before the cache`,
    )
    const tokens = [BigInt(first.token), BigInt(late.token)]
    for (const writer of [...others, ...others]) {
      const { price, token } = await write(writer)
      tokens.push(BigInt(token))
      console.log(`${writer.name} has written ${price}, token ${token}`)
    }
    slow.process.signal('SIGCONT')
    slow.process.tell('go on')
    const { refused } = await slow.process.next('cached', 'refused')
    console.log(`${slow.name} goes on, and puts ${late.price} into the cache: ${refused ?? 'taken'}`)
    const { rows } = await pool.query('select price from prices')
    const cached = Number(await cache.read('tea'))
    console.log(`the database says ${rows[0].price}, the cache ${cached}`)
    const isInOrder = tokens.every((token, i) => i === 0 || token > tokens[i - 1])
    return refused === 'stale_token' && cached === rows[0].price && isInOrder ? 0 : 1
  } finally {
    await Promise.all([slow, ...others].map(writer => writer.process.kill()))
    await rm(folder, { recursive: true, force: true })
  }
})

/** One turn of a writer, to its end. */
async function write({ name, process }) {
  const heard = async event => {
    const said = await process.next(event, 'refused')
    if (said.event === 'refused') throw new Error(`${name} was refused: ${said.refused}`)
    return said
  }
  process.tell('write')
  await heard('committed')
  return await heard('cached')
}
