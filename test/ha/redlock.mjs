// node-redlock over three Redis, one of which is killed: what stands beside the first scenario.
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { now, sleep } from '../faults/history.mjs'
import { freePorts, until } from './cluster/programs.mjs'

/** The bench is a package of its own. */
const inBench = createRequire(new URL('../../bench/package.json', import.meta.url))
const [library, driver] = ['redlock', 'ioredis']

/** Figures in seconds by name; none where redis-server or the bench's packages are not installed. */
export async function redlockBeside(cluster) {
  let Redlock
  let Redis
  try {
    Redlock = (await import(pathToFileURL(inBench.resolve(library)).href)).default
    Redis = inBench(driver)
  } catch {
    console.log('   beside redlock: not run, npm ci --prefix bench installs it')
    return {}
  }
  const ports = await freePorts(3)
  const servers = ports.map((port, i) =>
    cluster.programs.start(`redis${i + 1}`, 'redis-server', [
      ...['--bind', '127.0.0.1', '--port', String(port), '--save', '', '--appendonly', 'no'],
    ]),
  )
  const clients = ports.map(port => new (Redis.Redis ?? Redis)({ port, host: '127.0.0.1' }))
  for (const client of clients) client.on('error', () => {})
  const redlock = new (Redlock.default ?? Redlock)(clients, { retryCount: 0 })
  redlock.on('error', () => {})
  try {
    const answers = async () => (await Promise.all(clients.map(client => client.ping()))).length === 3
    if (!(await until(answers, 'Redis answers', 5_000).catch(() => false))) {
      console.log('   beside redlock: not run, redis-server does not answer')
      return {}
    }
    const began = now()
    let longest = 0
    let last = began
    let failures = 0
    let cycles = 0
    const kill = setTimeout(() => servers[0]?.signal('SIGKILL'), 2_000)
    while (now() < began + 10_000) {
      try {
        const lock = await redlock.acquire([`key ${cycles++ % 50}`], 3_000)
        longest = Math.max(longest, now() - last)
        last = now()
        await lock.release()
      } catch {
        failures++
      }
      await sleep(10)
    }
    clearTimeout(kill)
    console.log(`   beside redlock: ${failures} of ${cycles} cycles failed`)
    return { 'redlock, one Redis of three gone: longest stall of grants': longest / 1_000 }
  } finally {
    for (const client of clients) client.disconnect()
    for (const server of servers) await server.end()
  }
}
