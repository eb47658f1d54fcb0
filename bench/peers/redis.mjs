import { packageVersion, token } from './support/peer.mjs'
import { connectRedis, disconnectRedis } from './support/redis.mjs'

const DELETE_IF_MINE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`

/** @type {any} */
let redis

/** Redis by hand: the two commands that every lock library on one Redis comes down to. @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'redis',
  version: `ioredis ${packageVersion('ioredis')}`,
  settings: 'SET NX PX, compare-and-delete in Lua, auto-pipelining, one connection',
  needs: 'redis',
  async start({ url }) {
    redis = await connectRedis(url)
    redis.defineCommand('deleteIfMine', { numberOfKeys: 1, lua: DELETE_IF_MINE })
  },
  async cycle(key) {
    const mine = token()
    if ((await redis.set(key, mine, 'PX', 30_000, 'NX')) !== 'OK') throw new Error(`not granted: ${key}`)
    if ((await redis.deleteIfMine(key, mine)) !== 1) throw new Error(`not released: ${key}`)
  },
  stop: () => disconnectRedis(redis),
}
