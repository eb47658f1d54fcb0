// One of the nodes: it says what it does on stdout, and ends when its stdin does.
import { setTimeout as pause } from 'node:timers/promises'
import { Fencepost } from 'fencepost'

const [name] = process.argv.slice(2)
const say = (event, fields = {}) => process.stdout.write(`${JSON.stringify({ event, name, ...fields })}\n`)

const fp = new Fencepost({ connectionString: process.env.DATABASE_URL, ttl: '2s', owner: name })
await fp.schedule(
  'each second',
  '* * * * * *',
  async ({ slot, attempt, transaction }) => {
    say('began', { slot, attempt })
    await pause(200)
    await transaction(client => client.query('insert into runs values ($1, $2, $3)', [slot, attempt, name]))
    say('ran', { slot, attempt })
  },
  { missed: 'all', overlap: 'queue', retry: { attempts: 2 } },
)
say('ready')
process.stdin.resume()
process.stdin.on('end', async () => {
  await fp.close()
  process.exit()
})
