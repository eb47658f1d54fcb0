import { Etcd3 } from 'etcd3'

/** @param {string} url */
export async function connectEtcd(url) {
  const etcd = new Etcd3({ hosts: url })
  // Connects now, not under the measurement.
  await etcd.get('bench:connected')
  return etcd
}

/**
 * Ends the client; rejects if a key was left behind.
 * @param {Etcd3} etcd
 * @param {import('etcd3').Lease} [lease] to be given back first
 */
export async function disconnectEtcd(etcd, lease) {
  const left = await etcd.getAll().prefix('bench:').count()
  await etcd.delete().prefix('bench:')
  await lease?.revoke()
  etcd.close()
  if (left > 0) throw new Error(`${left} keys were left in etcd`)
}
