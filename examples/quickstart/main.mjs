/**
 * The first minute with Fencepost: `npm run quickstart`, or `node examples/quickstart/main.mjs [--without-fence]`.
 * Starts a PostgreSQL of its own and three workers, plays three scenes with them, and exits 0 only if what happened is
 * what Fencepost promises. With `--without-fence` the data checks no token: see what then becomes of it.
 */
import { Fencepost } from 'fencepost'
import { startPostgres } from 'fencepost/testing'
import pg from 'pg'
import * as counter from './counter.mjs'
import { Worker } from './crew.mjs'
import { judge } from './findings.mjs'
import { heading, seconds, tell } from './narrator.mjs'
import { names, ttl } from './setting.mjs'
import { play } from './story.mjs'

const withoutFence = process.argv.includes('--without-fence')
const started = []
let ending
let interrupted = false

/** Ends all that was started, the last first; the second call waits for the first. */
function end() {
  ending ??= (async () => {
    for (const stop of started.reverse()) await stop()
  })()
  return ending
}

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
]) {
  process.once(signal, async () => {
    interrupted = true
    await end()
    process.exit(code)
  })
}

try {
  process.exitCode = (await run()) ? 0 : 1
} catch (error) {
  if (!interrupted) console.error(`\nThe quickstart did not come to its end: ${error.stack}`)
  process.exitCode = 1
} finally {
  await end()
}

async function run() {
  console.log(`Three processes contend for one lock, kept in PostgreSQL. About fifteen seconds.\n`)
  tell('starting a PostgreSQL of our own: nothing is installed, and it is deleted at the end')
  const server = await startPostgres()
  started.push(() => server.end())
  const pool = new pg.Pool({ connectionString: server.url })
  pool.on('error', () => {})
  started.push(() => pool.end())
  await prepare(pool, server)

  const workers = names.map(name => new Worker(name, server.url))
  started.push(() => Promise.all(workers.map(worker => worker.end({ within: interrupted ? 0 : 5_000 }))))
  await Promise.all(workers.map(worker => worker.next('ready')))
  tell(`${workers.map(({ name, pid }) => `${name} (pid ${pid})`).join(', ')} are up; ttl ${seconds(ttl)}`)

  const evidence = await play(pool, Object.fromEntries(workers.map(worker => [worker.name, worker])))
  const acknowledged = workers.reduce((sum, worker) => sum + worker.acknowledged, 0)
  return report(judge({ ...evidence, acknowledged }))
}

async function prepare(pool, server) {
  const fp = new Fencepost({ pool })
  const { version } = await fp.migrate()
  await fp.close()
  await counter.create(pool)
  const { rows } = await pool.query('show server_version')
  tell(
    `PostgreSQL ${rows[0].server_version} runs (pid ${server.pid}, port ${server.port}), schema version ${version}`,
  )
  if (!withoutFence) return
  // In the database of this demonstration alone: a fence that lets everybody in.
  await pool.query(`create or replace function fencepost.fence(resource text, token bigint)
    returns void language sql as 'select'`)
  tell('WITHOUT FENCE: in this run the data checks no token')
}

function report(findings) {
  heading('Observed:')
  for (const { ok, what } of findings) console.log(`  ${ok ? 'yes' : 'NO '}  ${what}`)
  const failed = findings.filter(({ ok }) => !ok).length
  console.log(failed === 0 ? '\nAll of it was observed.' : `\n${failed} of ${findings.length} NOT observed.`)
  if (withoutFence) console.log('That is what a lease alone is worth when its holder pauses: fence the data.')
  return failed === 0
}
