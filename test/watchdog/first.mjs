// For watchdog.test.ts: holds a lock, and blocks its loop for good.
import { Fencepost } from '../../dist/index.js'
import { say } from '../support/worker.mjs'

const fp = new Fencepost({ ...JSON.parse(process.argv[2]), watchdog: true, ttl: 1_500 })
await fp.acquire('k')
say('held')
setTimeout(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60_000))
