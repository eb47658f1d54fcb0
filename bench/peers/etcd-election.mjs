import { connectEtcd, disconnectEtcd } from './support/etcd.mjs'
import { packageVersion } from './support/peer.mjs'

/** @type {any} */
let etcd

/** What waits in line in this client: a candidate is told when the one before it has gone. @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'etcd3 election()',
  version: `etcd3 ${packageVersion('etcd3')}`,
  settings: 'campaign, wait until elected, resign: a lease for each, a watch for each that waits',
  needs: 'etcd',
  async start({ url }) {
    etcd = await connectEtcd(url)
  },
  async cycle(key, granted) {
    const campaign = etcd.election(key, 30).campaign('')
    await campaign.wait()
    granted?.()
    await campaign.resign()
  },
  stop: () => disconnectEtcd(etcd),
}
