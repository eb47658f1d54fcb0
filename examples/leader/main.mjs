/**
 * One leader among three processes: `npm run example -- leader`. The one that leads is killed, and the next in line leads when
 * its time to live has run out; a fourth takes its place as a candidate; then the new leader is asked to end (SIGTERM), and hands
 * over at once. Whoever leads writes its token into a table. Exit code 0: all of that was seen, in this order, and no two led
 * at a time. 1: not so.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Fencepost } from 'fencepost'
import { withServer } from '../server.mjs'
import { judge } from './findings.mjs'
import { name, ttl } from './setting.mjs'

const script = fileURLToPath(new URL('worker.mjs', import.meta.url))

process.exitCode = await withServer(async ({ url, pool, signal }) => {
  await pool.query('create table written (number serial, pid int, token bigint)')
  const crew = new Map()
  const hire = () => {
    const worker = spawn(process.execPath, [script], {
      env: { ...process.env, DATABASE_URL: url },
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    crew.set(worker.pid, worker)
  }
  const fp = new Fencepost({ pool, poll: 100 })
  try {
    for (let i = 0; i < 3; i++) hire()
    const patience = AbortSignal.any([signal, AbortSignal.timeout(60_000)])
    const seen = await watch(fp.election(name), patience, { crew, hire, pool })
    const { rows } = await pool.query('select pid, token from written order by number')
    const findings = judge({ ...seen, written: rows, ttl })
    console.log('\nObserved:')
    for (const { ok, what } of findings) console.log(`  ${ok ? 'yes' : 'NO '}  ${what}`)
    return findings.every(({ ok }) => ok) ? 0 : 1
  } finally {
    await fp.close()
    await Promise.all([...crew.values()].map(end))
  }
})

/** Looks on while leaders come and go, and sees to it that they go. */
async function watch(election, signal, { crew, hire, pool }) {
  const terms = []
  const done = {}
  for await (const leader of election.observe({ signal })) {
    if (leader === null) {
      console.log('nobody leads')
      continue
    }
    const { pid } = leader.value
    terms.push({ pid, token: leader.token, at: performance.now() })
    console.log(`pid ${pid} leads, token ${leader.token}`)
    await untilWritten(pool, leader.token)
    if (terms.length === 3) break
    if (terms.length === 1) {
      done.killed = { pid, at: performance.now() }
      crew.get(pid).kill('SIGKILL')
      hire()
      console.log(`pid ${pid} is killed; another process takes its place in line`)
    } else {
      done.asked = { pid, at: performance.now() }
      crew.get(pid).kill('SIGTERM')
      console.log(`pid ${pid} is asked to end`)
    }
  }
  return { terms, ...done }
}

/** It has led in earnest: something was written under its term. */
async function untilWritten(pool, token) {
  for (;;) {
    const { rowCount } = await pool.query('select from written where token = $1', [String(token)])
    if (rowCount > 0) return
  }
}

async function end(worker) {
  if (worker.exitCode !== null || worker.signalCode !== null) return
  worker.kill('SIGTERM')
  await once(worker, 'exit')
}
