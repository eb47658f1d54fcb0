import { connectEtcd, disconnectEtcd } from './support/etcd.mjs'
import { packageVersion } from './support/peer.mjs'

/** @type {any} */
let etcd

/** @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'etcd3 lock()',
  version: `etcd3 ${packageVersion('etcd3')}`,
  settings: 'as documented: a lease for each lock',
  needs: 'etcd',
  async start({ url }) {
    etcd = await connectEtcd(url)
  },
  async cycle(key) {
    // acquire() rejects unless the key was created; release() revokes the lease, and the key goes with it.
    const lock = await etcd.lock(key).ttl(30).acquire()
    await lock.release()
  },
  stop: () => disconnectEtcd(etcd),
}
