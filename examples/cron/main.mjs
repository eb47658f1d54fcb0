/**
 * A cron job of each second on three nodes: `npm run example -- cron`. The node that runs the fourth tick is killed in the
 * middle of it; another one does that tick again, and all that came meanwhile.
 * Exit code 0: from the first to the last, each second was run once to its end, and the one whose node was killed by
 * another, as its second attempt. 1: not so.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { withServer } from '../server.mjs'

const names = ['Ada', 'Ben', 'Cleo']
const [killedAt, last] = [4, 12]
const script = fileURLToPath(new URL('worker.mjs', import.meta.url))

process.exitCode = await withServer(async ({ url, pool, signal }) => {
  await pool.query('create table runs (slot timestamptz, attempt int, name text)')
  const nodes = names.map(name => start(name, url))
  signal.addEventListener('abort', () => nodes.forEach(kill))
  try {
    const killed = await watch(nodes)
    await Promise.all(nodes.map(end))
    return await verdict(pool, killed)
  } finally {
    nodes.forEach(kill)
  }
})

function start(name, url) {
  const env = { ...process.env, DATABASE_URL: url }
  const child = spawn(process.execPath, [script, name], { env, stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.on('error', () => {})
  return { name, child, ended: once(child, 'close'), lines: createInterface({ input: child.stdout }) }
}

function kill({ child }) {
  child.kill('SIGKILL')
}

async function end({ child, ended }) {
  child.stdin.end()
  await ended
}

/** Until enough ticks have run. Answers whose node was killed, and in which tick. */
function watch(nodes) {
  return new Promise((resolve, reject) => {
    let [began, ran, killed] = [0, 0]
    const late = setTimeout(() => reject(new Error(`only ${ran} ticks ran`)), 60_000)
    for (const node of nodes) {
      node.lines.on('line', line => {
        const { event, name, slot, attempt } = JSON.parse(line)
        if (event === 'ready') return
        console.log(`${name.padEnd(5)} ${event} ${slot.slice(11, 19)}${attempt > 1 ? ', once more' : ''}`)
        if (event === 'ran') ran += 1
        else began += 1
        if (event === 'began' && began === killedAt) {
          kill(node)
          killed = { name, slot }
          console.log(`${name.padEnd(5)} is killed`)
        }
        if (ran < last || !killed) return
        clearTimeout(late)
        resolve(killed)
      })
    }
  })
}

async function verdict(pool, killed) {
  const { rows: runs } = await pool.query('select slot, attempt, name from runs order by slot')
  // What came while they ended is not over.
  const { rows: ticks } = await pool.query(
    'select slot, state, attempt from fencepost.ticks where slot <= $1 order by slot',
    [runs.at(-1).slot],
  )
  const time = ({ slot }) => slot.getTime()
  const [first] = ticks
  const findings = {
    'each second has a tick': ticks.every((tick, i) => time(tick) === time(first) + i * 1_000),
    'each tick was run to its end': ticks.every(({ state }) => state === 'finished'),
    'and once': runs.map(time).join() === ticks.map(time).join(),
    'the one of the killed node by another one': runs.some(
      run => run.slot.toISOString() === killed.slot && run.attempt === 2 && run.name !== killed.name,
    ),
    'none of the others was started twice': ticks.filter(({ attempt }) => attempt > 1).length === 1,
  }
  console.log()
  for (const [what, isSo] of Object.entries(findings)) console.log(`${isSo ? 'yes' : 'NO '}  ${what}`)
  return Object.values(findings).every(Boolean) ? 0 : 1
}
