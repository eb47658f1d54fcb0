import pg from 'pg'
import { bar } from '../harness/bars.mjs'
import { Cells } from '../harness/cells.mjs'
import { measure as measureCycles } from '../harness/measure.mjs'
import { inTurn } from '../harness/rounds.mjs'

export const summary = 'one update in a transaction, with and without a lock pinned in it, on the same client'

export const servers = /** @type {const} */ ([])

export const leftOut = []

const CASE = '1 caller'
const PLAIN = 'begin, update, commit'
const GUARDED = 'lock.transaction'
const PINNED = 'begin, lock.guard, update, commit'

/** In this process: what is compared are statements on one connection. */
export async function prepare() {
  return []
}

/** @param {import('../harness/bench.mjs').Bench} bench */
export async function measure(bench) {
  const { Fencepost } = await import('../../dist/index.js')
  const pool = new pg.Pool({ connectionString: await bench.url('postgres'), max: 1, idleTimeoutMillis: 0 })
  const fp = new Fencepost({ pool })
  await fp.migrate()
  await pool.query(
    'create table counter (value int not null) with (fillfactor = 50); insert into counter values (0)',
  )
  const cells = new Cells()
  try {
    const lock = await fp.acquire('bench')
    const ways = Object.entries(waysOf(pool, lock))
    for (let round = 0; round < bench.rounds; round++) {
      for (const [name, cycle] of inTurn(ways, round)) {
        await pool.query('vacuum counter')
        const { cycles: _, ...figures } = await measureCycles(cycle, {
          callers: 1,
          warmUp: 300,
          window: bench.window,
        })
        cells.add(CASE, name, figures)
        bench.progress(round, name, figures)
      }
    }
    await lock.release()
  } finally {
    await fp.close()
    await pool.end()
  }
  const ratio = (/** @type {string} */ name) => cells.get(CASE, name).p50 / cells.get(CASE, PLAIN).p50
  return {
    cells: cells.all(),
    bars: [bar('lock.transaction: median / median of the plain one', '<=', 1.3, ratio(GUARDED))],
  }
}

const UPDATE = 'update counter set value = value + 1'

/**
 * @param {pg.Pool} pool
 * @param {import('../../dist/index.js').Lock} lock
 * @returns {Record<string, () => Promise<unknown>>}
 */
function waysOf(pool, lock) {
  return {
    [PLAIN]: () => inTransaction(pool, client => client.query(UPDATE)),
    [GUARDED]: () => lock.transaction(client => client.query(UPDATE)),
    [PINNED]: () =>
      inTransaction(pool, async client => {
        await lock.guard(client)
        await client.query(UPDATE)
      }),
  }
}

/**
 * @param {pg.Pool} pool
 * @param {(client: pg.PoolClient) => Promise<unknown>} work
 */
async function inTransaction(pool, work) {
  const client = await pool.connect()
  try {
    await client.query('begin')
    await work(client)
    await client.query('commit')
  } finally {
    client.release()
  }
}
