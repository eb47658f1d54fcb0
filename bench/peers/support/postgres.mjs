import pg from 'pg'

/**
 * A pool whose connections are open already: opening them is not what is measured.
 * @param {string} url
 * @param {number} max
 */
export async function openPool(url, max) {
  const pool = new pg.Pool({ connectionString: url, max, idleTimeoutMillis: 0 })
  const clients = await Promise.all(Array.from({ length: max }, () => pool.connect()))
  for (const client of clients) client.release()
  return pool
}

/**
 * Ends the pool; rejects unless the query answers the number 0.
 * @param {pg.Pool} pool
 * @param {string} leftovers a query for how much was left behind
 */
export async function closePool(pool, leftovers) {
  const { rows } = await pool.query({ text: leftovers, rowMode: 'array' })
  await pool.end()
  const left = Number(rows[0]?.[0])
  if (left !== 0) throw new Error(`${left} locks were left in PostgreSQL`)
}

/** How many advisory locks are held in this database. */
export const ADVISORY_LEFT = `select count(*) from pg_locks where locktype = 'advisory'
  and database = (select oid from pg_database where datname = current_database())`
