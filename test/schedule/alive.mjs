// Nothing but a schedule keeps this process alive, and nothing at all once its client is closed.
import { Fencepost } from '../../dist/index.js'

const [connectionString, schema] = process.argv.slice(2)
const fp = new Fencepost({ connectionString, schema })
await fp.schedule('s', '* * * * * *', () => {
  process.stdout.write('{"name":"ran"}\n')
  setImmediate(() => fp.close())
})
