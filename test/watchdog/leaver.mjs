// For watchdog.test.ts: holds a lock, and comes to its end without a word.
import { Fencepost } from '../../dist/index.js'
import { say } from '../support/worker.mjs'

const fp = new Fencepost({ ...JSON.parse(process.argv[2]), watchdog: true })
const lock = await fp.acquire('k')
say('held', { state: lock.state })
