import Redlock from 'redlock'
import { packageVersion } from './support/peer.mjs'
import { connectRedis, disconnectRedis } from './support/redis.mjs'

/** Milliseconds; of 1, 5, 20, 100 and 200 (the default) the one with the most grants by 50 contenders in ten processes. */
const DELAY = 20

/** @type {any} */
let redis
/** @type {any} */
let redlock

/** @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'redlock',
  version: `redlock ${packageVersion('redlock')}, ioredis ${packageVersion('ioredis')}`,
  settings: `one Redis, tries again after ${DELAY} ms for ever, auto-pipelining`,
  needs: 'redis',
  async start({ url }) {
    redis = await connectRedis(url)
    redlock = new Redlock([redis], { retryCount: -1, retryDelay: DELAY, retryJitter: DELAY })
  },
  async cycle(key, granted) {
    const lock = await redlock.acquire([key], 30_000)
    granted?.()
    await lock.release()
  },
  stop: () => disconnectRedis(redis),
}
