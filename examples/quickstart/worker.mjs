/**
 * One of the three processes: `node worker.mjs NAME`, with DATABASE_URL. It is told on stdin, a word a line, to `ask`
 * for the lock and to `finish` what it does under it, and says on stdout, in JSON lines, what happens to it.
 */
import { createInterface } from 'node:readline'
import { Fencepost } from 'fencepost'
import pg from 'pg'
import { read, write } from './counter.mjs'
import { key, poll, ttl } from './setting.mjs'

const name = process.argv[2]
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 2 })
pool.on('error', () => {})
const fp = new Fencepost({ pool, owner: name, ttl, poll })
let finish = () => {}

async function turn() {
  await fp.withLock(key, async lock => {
    const token = lock.token
    lock.signal.addEventListener('abort', () =>
      say('told', { state: lock.state, reason: lock.signal.reason.reason }),
    )
    const value = await read(pool, name, token)
    const finished = new Promise(resolve => {
      finish = resolve
    })
    say('holds', { token, value })
    await finished
    // On purpose nothing looks at the lock here: the data alone has to refuse.
    await write(pool, name, token, value + 1)
    say('wrote', { token, value: value + 1 })
  })
}

function say(event, fields = {}) {
  const text = JSON.stringify({ event, ...fields }, (_, value) =>
    typeof value === 'bigint' ? value.toString() : value,
  )
  process.stdout.write(`${text}\n`)
}

say('ready')

for await (const word of createInterface({ input: process.stdin })) {
  if (word === 'finish') finish()
  else turn().catch(({ name, code, message }) => say('failed', { error: name, code, message }))
}
await fp.close()
await pool.end()
