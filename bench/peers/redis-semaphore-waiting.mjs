import { Mutex } from 'redis-semaphore'
import { packageVersion } from './support/peer.mjs'
import { connectRedis, disconnectRedis } from './support/redis.mjs'

/** Milliseconds: the default, and of 1, 5, 10 and 50 the one with the most grants by 50 contenders. */
const INTERVAL = 10

/** @type {any} */
let redis

/** @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'redis-semaphore',
  version: `redis-semaphore ${packageVersion('redis-semaphore')}, ioredis ${packageVersion('ioredis')}`,
  settings: `Mutex, tries again after ${INTERVAL} ms for ever, no refresh timer, auto-pipelining`,
  needs: 'redis',
  async start({ url }) {
    redis = await connectRedis(url)
  },
  async cycle(key, granted) {
    const acquireTimeout = Number.POSITIVE_INFINITY
    const options = { lockTimeout: 30_000, acquireTimeout, retryInterval: INTERVAL, refreshInterval: 0 }
    const mutex = new Mutex(redis, key, options)
    await mutex.acquire()
    granted?.()
    await mutex.release()
  },
  stop: () => disconnectRedis(redis),
}
