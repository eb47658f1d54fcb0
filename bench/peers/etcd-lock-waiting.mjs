import { setTimeout as pause } from 'node:timers/promises'
import { EtcdLockFailedError } from 'etcd3'
import { connectEtcd, disconnectEtcd } from './support/etcd.mjs'
import { packageVersion } from './support/peer.mjs'

/** Milliseconds; of 5, 20, 100 and 400 the one with the most grants by 50 contenders: a try is three commits. */
const DELAY = 400

/** @type {any} */
let etcd

/** @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'etcd3 lock()',
  version: `etcd3 ${packageVersion('etcd3')}`,
  settings: `as documented, and tried again after ${DELAY} ms on average for ever, for it does not wait by itself`,
  needs: 'etcd',
  async start({ url }) {
    etcd = await connectEtcd(url)
  },
  async cycle(key, granted) {
    const lock = await acquire(key)
    granted?.()
    await lock.release()
  },
  stop: () => disconnectEtcd(etcd),
}

/** @param {string} key */
async function acquire(key) {
  for (;;) {
    try {
      return await etcd.lock(key).ttl(30).acquire()
    } catch (error) {
      if (!(error instanceof EtcdLockFailedError)) throw error
      // Half of it by chance, or they would all come again together.
      await pause(DELAY * (0.5 + Math.random()))
    }
  }
}
