import { Fencepost } from 'fencepost'
import { startPostgres } from 'fencepost/testing'
import pg from 'pg'

/** Runs an example on a PostgreSQL of its own, which is gone afterwards, and answers what it answers: its exit code. */
export async function withServer(example) {
  const server = await startPostgres()
  const pool = new pg.Pool({ connectionString: server.url, max: 20 })
  pool.on('error', () => {})
  const stop = new AbortController()
  const interrupt = () => stop.abort(new Error('interrupted'))
  process.once('SIGINT', interrupt)
  process.once('SIGTERM', interrupt)
  try {
    const fp = new Fencepost({ pool })
    await fp.migrate()
    await fp.close()
    return await Promise.race([
      example({ url: server.url, pool, signal: stop.signal }),
      new Promise((_, reject) => stop.signal.addEventListener('abort', () => reject(stop.signal.reason))),
    ])
  } catch (error) {
    console.error(stop.signal.aborted ? 'interrupted' : error)
    return stop.signal.aborted ? 130 : 1
  } finally {
    await pool.end()
    await server.end()
  }
}
