// The proxy of the tests: TypeScript, and bundled in memory as the fault campaign does it.
import { load } from '../../test/faults/load.mjs'
import { defer } from './cleanup.mjs'

const proxies = await load('../support/proxy.ts')

/**
 * A proxy before the server that the URL names, which cuts, loses and delays; ended with the bench.
 * @param {string} url
 * @returns {Promise<import('../../test/support/proxy.ts').PostgresProxy>}
 */
export async function startProxy(url) {
  const proxy = await proxies.startProxy(url)
  defer(() => proxy.close())
  return proxy
}
