/** Reads under a lock, and writes when it is told to, whatever has become of the lock: the store alone has to refuse. */
import { once } from 'node:events'
import { Fencepost, FileFencedStore } from 'fencepost'

const [folder] = process.argv.slice(2)
const store = new FileFencedStore(folder)
const say = message => console.log(JSON.stringify(message))
const fp = new Fencepost({ connectionString: process.env.DATABASE_URL, ttl: '1s' })

const { token } = await fp.acquire('report')
say({ token: String(token), read: String(await store.enter('report', token)) })
await once(process.stdin, 'data')
try {
  await store.write('report', token, 'from the past')
  say({})
} catch (error) {
  say({ refused: error.code })
}
process.stdin.destroy()
await fp.close()
