import { Redis } from 'ioredis'

/** A connection that sends the commands of one turn of the event loop together. @param {string} url */
export async function connectRedis(url) {
  const redis = new Redis(url, { enableAutoPipelining: true, lazyConnect: true })
  await redis.connect()
  return redis
}

/** Ends the connection; rejects if a key was left behind. @param {Redis} redis */
export async function disconnectRedis(redis) {
  const left = await redis.dbsize()
  await redis.flushall()
  redis.disconnect()
  if (left > 0) throw new Error(`${left} keys were left in Redis`)
}
