import { Mutex } from 'redis-semaphore'
import { packageVersion } from './support/peer.mjs'
import { connectRedis, disconnectRedis } from './support/redis.mjs'

/** @type {any} */
let redis

/** @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'redis-semaphore',
  version: `redis-semaphore ${packageVersion('redis-semaphore')}, ioredis ${packageVersion('ioredis')}`,
  settings: 'Mutex, no refresh timer, auto-pipelining',
  needs: 'redis',
  async start({ url }) {
    redis = await connectRedis(url)
  },
  async cycle(key) {
    const mutex = new Mutex(redis, key, { lockTimeout: 30_000, refreshInterval: 0 })
    if (!(await mutex.tryAcquire())) throw new Error(`not granted: ${key}`)
    // Its release does not tell whether the lock was still ours: the empty Redis at the end does.
    await mutex.release()
  },
  stop: () => disconnectRedis(redis),
}
