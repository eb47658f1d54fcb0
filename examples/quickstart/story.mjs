import { setTimeout as pause } from 'node:timers/promises'
import { heading, seconds, tell } from './narrator.mjs'
import { key, poll, ttl } from './setting.mjs'

/** How long each section lasts, in milliseconds: long enough to be read while it happens. */
const work = 300

/** Plays the three scenes with three workers, and returns the evidence for `judge`. */
export async function play(pool, { Ada, Ben, Cleo }) {
  const line = await keepTheLine(pool, Ada, [Cleo, Ben, Cleo, Ada])
  const killed = await killTheHolder(pool, Ada, [Ben, Cleo])
  const slept = await stopTheHolder(Ben, Cleo)
  const { rows: journal } = await pool.query('select holder, token, did from journal order by n')
  const { rows } = await pool.query('select value from counter')
  return { line, killed, slept, journal, counter: rows[0].value, ttl, poll }
}

async function keepTheLine(pool, first, others) {
  heading('1. Whoever comes is served in turn, and every grant has a higher token')
  first.tell('ask')
  await holds(first)
  const line = await queueUp(pool, others)
  let holder = first
  for (const next of others) {
    await finishes(holder)
    await holds(next)
    holder = next
  }
  return line
}

async function killTheHolder(pool, holder, others) {
  heading(`2. The holder dies: kill -9. Its lock outlives it by ${seconds(ttl)} at most`)
  const [expected] = await queueUp(pool, others)
  const killedAt = performance.now()
  holder.signal('SIGKILL')
  const signal = await holder.ended
  tell(`${holder.name} (pid ${holder.pid}) is gone: ${signal}. It has released nothing`)
  const heir = await nextHolder(pool, holder.name)
  const after = Math.round(performance.now() - killedAt)
  await holds(others.find(({ name }) => name === heir))
  tell(`that was ${seconds(after)} after the kill`)
  return { who: holder.name, signal, expected, heir, after }
}

async function stopTheHolder(holder, next) {
  heading('3. The holder is stopped (SIGSTOP) between its read and its write, and wakes up too late')
  const stoppedAt = performance.now()
  holder.signal('SIGSTOP')
  tell(`${holder.name} (pid ${holder.pid}) stands still. It has read, and means to write`)
  await holds(next)
  await finishes(next)
  // The wait is the subject: longer than the ttl, which runs from the last heartbeat.
  await pause(Math.max(stoppedAt + ttl + 500 - performance.now(), 0))
  // It finds the word when it wakes up, and writes without a look at its lock.
  holder.tell('finish')
  const stopped = Math.round(performance.now() - stoppedAt)
  holder.signal('SIGCONT')
  tell(`${holder.name} wakes up after ${seconds(stopped)}, and goes on where it was`)
  const { state, reason } = await holder.next('told')
  tell(`${holder.name} is told: the lock is ${state} (${reason}), its signal is aborted`)
  const outcome = await staleWrite(holder)
  await comesBack(holder)
  return { who: holder.name, for: stopped, state, reason, outcome }
}

async function staleWrite(holder) {
  const { event, value, code, message } = await holder.next('wrote', 'failed')
  if (event === 'failed') {
    tell(
      `${holder.name} writes all the same, with its old token, and the data refuses: ${code}, "${message}"`,
    )
    return code
  }
  tell(`${holder.name} writes ${value} all the same, with its old token, and NOTHING refuses it`)
  await holder.next('failed')
  return 'accepted'
}

async function comesBack(holder) {
  holder.tell('ask')
  await holds(holder)
  await finishes(holder)
}

async function holds(worker) {
  const { token, value } = await worker.next('holds')
  tell(`${worker.name} holds "${key}" with token ${token}, and reads ${value}`)
  return worker.name
}

async function finishes(worker) {
  await pause(work)
  worker.tell('finish')
  const { value } = await worker.next('wrote')
  tell(`${worker.name} writes ${value} and lets go`)
}

/** One after the other: each is in the line, by the database's own view, before the next is told to ask. */
async function queueUp(pool, workers) {
  for (const [i, worker] of workers.entries()) {
    worker.tell('ask')
    while ((await lineOf(pool)).length <= i) await pause(10)
  }
  const line = await lineOf(pool)
  tell(`in line behind: ${line.join(', ')}`)
  return line
}

/** Who holds it, once that is no longer `last`. */
async function nextHolder(pool, last) {
  for (;;) {
    const { rows } = await pool.query('select owner from fencepost.held where key = $1', [key])
    const [holder] = rows
    if (holder && holder.owner !== last) return holder.owner
    await pause(10)
  }
}

async function lineOf(pool) {
  const { rows } = await pool.query('select owner from fencepost.pending where key = $1 order by ticket', [
    key,
  ])
  return rows.map(({ owner }) => owner)
}
