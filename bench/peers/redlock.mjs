import Redlock from 'redlock'
import { packageVersion } from './support/peer.mjs'
import { connectRedis, disconnectRedis } from './support/redis.mjs'

/** @type {any} */
let redis
/** @type {any} */
let redlock

/** @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'redlock',
  version: `redlock ${packageVersion('redlock')}, ioredis ${packageVersion('ioredis')}`,
  settings: 'one Redis, no retries, auto-pipelining',
  needs: 'redis',
  async start({ url }) {
    redis = await connectRedis(url)
    redlock = new Redlock([redis], { retryCount: 0 })
  },
  async cycle(key) {
    // Both reject without a quorum, which for one Redis is: not granted, not ours.
    const lock = await redlock.acquire([key], 30_000)
    await lock.release()
  },
  stop: () => disconnectRedis(redis),
}
