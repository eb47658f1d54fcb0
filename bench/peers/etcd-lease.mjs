import { connectEtcd, disconnectEtcd } from './support/etcd.mjs'
import { packageVersion } from './support/peer.mjs'

/** @type {any} */
let etcd
/** @type {any} */
let lease
/** @type {string} */
let leaseId

/** @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'etcd3 shared lease',
  version: `etcd3 ${packageVersion('etcd3')}`,
  settings: 'the transaction of its lock() under one lease for all, then a delete',
  needs: 'etcd',
  async start({ url }) {
    etcd = await connectEtcd(url)
    lease = etcd.lease(30)
    leaseId = await lease.grant()
  },
  async cycle(key) {
    const mine = await etcd.if(key, 'Create', '==', 0).then(etcd.put(key).value('').lease(leaseId)).commit()
    if (!mine.succeeded) throw new Error(`not granted: ${key}`)
    const { deleted } = await etcd.delete().key(key)
    if (deleted !== '1') throw new Error(`not released: ${key}`)
  },
  async stop() {
    await disconnectEtcd(etcd, lease)
  },
}
