/**
 * What a lock is worth when its holder stands still: `npm run example -- paused-holder [--seconds N] [--workers N]`.
 *
 * Processes read a number, think, and write it back plus one, each time under a lock that lasts one second. Now and then
 * one of them is stopped for longer than that (SIGSTOP), as a long collection, a swapped-out page or a suspended machine
 * does it, and goes on where it was. The same work in five ways: which of the updates that were acknowledged are lost?
 *
 * Exit code 0: the exact ways lost none, and the bare lease some. 1: an exact way lost one. 2: the bare lease lost none, or
 * an exact way did nothing at all, so this run proves nothing.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { withServer } from '../server.mjs'
import { Crew } from './crew.mjs'
import { verdict } from './verdict.mjs'
import { ttl, ways } from './ways.mjs'

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '10' }, workers: { type: 'string', default: '5' } },
})
const seconds = positive('seconds')
const workers = positive('workers')

process.exitCode = await withServer(async ({ url, pool, signal }) => {
  console.log(
    `${workers} processes, ${seconds} s for each way, one of them stopped at most times, ttl ${ttl} ms\n`,
  )
  console.log('way                                acknowledged    lost  refused')
  const figures = {}
  for (const [name, { what, isExact }] of Object.entries(ways)) {
    await pool.query(
      `drop table if exists counter; create table counter as select 0 as value, 0::bigint as token`,
    )
    const { acknowledged, refused } = await run(name, url, signal)
    const { rows } = await pool.query('select value from counter')
    const lost = acknowledged - rows[0].value
    figures[name] = { acknowledged, lost }
    const row = [acknowledged, lost, refused].map((n, i) => String(n).padStart([12, 8, 9][i])).join('')
    console.log(`${what.padEnd(35)}${row}${isExact ? '   exact' : ''}`)
  }
  const shown = verdict(figures)
  console.log(`\n${shown.what}`)
  return shown.code
})

async function run(way, url, signal) {
  const crew = new Crew(workers, way, url)
  try {
    await crew.ready()
    const until = performance.now() + seconds * 1000
    while (performance.now() < until && !signal.aborted) {
      await pause(100 + Math.random() * 300)
      // At random, and every second time whoever is at work: the others would only stand still in line.
      const worker = Math.random() < 0.5 ? crew.anyone() : crew.holder()
      worker.stop()
      // Longer than the lock lasts: somebody else has it by then, and is at work.
      await pause(ttl * (1.1 + Math.random() * 0.6))
      worker.goOn()
    }
    return await crew.finish()
  } finally {
    crew.kill()
  }
}

function positive(name) {
  const value = Number(values[name])
  if (value > 0 && value <= 3_600) return value
  console.error(`--${name}: want a number above 0`)
  process.exit(64)
}
