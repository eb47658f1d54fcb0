import { readFileSync } from 'node:fs'
import pg from 'pg'
import { Refusal } from '../harness/refusal.mjs'
import { packageVersion } from './support/peer.mjs'

// Another build, to compare two of them: the path or URL of its index.js.
const build = process.env.FENCEPOST_BUILD ?? new URL('../../dist/index.js', import.meta.url).href
const { Fencepost } = await import(build).catch(cause => {
  throw new Refusal(`cannot load ${build}: ${cause.message}`)
})
const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))

/** The row of a semaphore stays, for it remembers how many permits there are. */
const LEFT = `select count(*)::int as left from fencepost.locks l
  where l.mode is distinct from 'permits' or exists (select from fencepost.holders h where h.key = l.key)`

/** @type {pg.Pool} */
let pool
/** @type {any} */
let fencepost
/** @type {any[]} */
let kept = []

/** @type {import('../harness/peer.mjs').Peer} */
export const peer = {
  name: 'fencepost',
  version: `fencepost ${version}, pg ${packageVersion('pg')}`,
  settings: process.env.FENCEPOST_BUILD ? `defaults, build ${build}` : 'defaults, migrated for each cell',
  needs: 'postgres',
  async start({ url }) {
    pool = new pg.Pool({ connectionString: url })
    fencepost = new Fencepost({ pool })
    await fencepost.migrate()
  },
  async cycle(key, granted) {
    const lock = await fencepost.acquire(key)
    granted?.()
    if (lock.state !== 'held') throw new Error(`not granted: ${key}`)
    const released = await lock.release()
    if (released !== 'released') throw new Error(`not released: ${key}: ${released}`)
  },
  async under(key, { capacity, ...terms }, work) {
    const semaphore = capacity === undefined ? undefined : fencepost.semaphore(key, { permits: capacity })
    const lock = await (semaphore ? semaphore.acquire() : fencepost.acquire(key, terms))
    await work()
    if (lock.state !== 'held') throw new Error(`not held any more: ${key}`)
    const released = await lock.release()
    if (released !== 'released') throw new Error(`not released: ${key}: ${released}`)
  },
  // A build that passes nothing on does not count it either.
  passed: () => fencepost.metrics().passed ?? 0,
  async hold({ locks, ttl }) {
    const keys = Array.from({ length: locks }, (_, i) => `bench:held ${i}`)
    kept = await Promise.all(keys.map(key => fencepost.acquire(key, ttl === undefined ? {} : { ttl })))
  },
  async letGo() {
    const lost = kept.filter(lock => lock.state !== 'held').length
    await Promise.all(kept.map(lock => lock.release()))
    kept = []
    return lost
  },
  async stop() {
    const { rows } = await pool.query(LEFT)
    await fencepost.close()
    await pool.end()
    if (rows[0].left !== 0) throw new Error(`${rows[0].left} locks were left in PostgreSQL`)
  },
}
