import { Semaphore } from 'redis-semaphore'
import { packageVersion } from './support/peer.mjs'
import { connectRedis, disconnectRedis } from './support/redis.mjs'

/** Milliseconds: the default. */
const INTERVAL = 10

/** @type {any} */
let redis

/** @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'redis-semaphore',
  version: `redis-semaphore ${packageVersion('redis-semaphore')}, ioredis ${packageVersion('ioredis')}`,
  settings: `Semaphore, tries again after ${INTERVAL} ms for ever, no refresh timer, auto-pipelining`,
  needs: 'redis',
  async start({ url }) {
    redis = await connectRedis(url)
  },
  cycle: () => Promise.reject(new Error('permits only')),
  async under(key, { capacity }, work) {
    const acquireTimeout = Number.POSITIVE_INFINITY
    const options = { lockTimeout: 30_000, acquireTimeout, retryInterval: INTERVAL, refreshInterval: 0 }
    const semaphore = new Semaphore(redis, key, capacity ?? 1, options)
    await semaphore.acquire()
    await work()
    await semaphore.release()
  },
  stop: () => disconnectRedis(redis),
}
