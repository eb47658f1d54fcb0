// Processes that are killed: whoever is next is served within the ttl of the dead and one poll.
import { expect, test } from 'vitest'
import { until } from '../support/until.ts'
import { Stage } from './stage.ts'
import { clock, type Worker } from './worker.ts'

const stage = new Stage()
const ttl = 2_000
/** What the machine may add: processes start, share two cores, and are told by pipes. */
const slack = 1_500

test('a holder is killed: the next in line has it within its ttl and a poll', async () => {
  const [holder, next] = (await stage.workers({ ttl }, {})) as [Worker, Worker]
  const held = await holder.hold('k')
  const waiting = next.acquire('k')
  await stage.inLine('k', 1)
  const killed = clock()
  await holder.kill()
  const granted = await next.granted(waiting)
  expect(granted.token).toBeGreaterThan(held.token)
  expect(granted.at - killed).toBeLessThan(ttl + 1_000 + slack)
  // Not before its time was up: a third of it may have passed since the last heartbeat.
  expect(granted.at - killed).toBeGreaterThan(ttl - ttl / 3 - 500)
})

test('a holder is killed, and nobody waits: a try has it once its ttl is over', async () => {
  const [holder, other] = (await stage.workers({ ttl }, {})) as [Worker, Worker]
  const held = await holder.hold('k')
  await holder.kill()
  const tried = async () => await other.answer(other.acquire('k', { timeout: 0 }))
  expect(await tried()).toMatchObject({ name: 'refused', code: 'timed_out' })
  const { token } = await until(
    async () => {
      const answer = await tried()
      return answer.name === 'granted' ? answer : undefined
    },
    { within: ttl + slack, every: 100 },
  )
  expect(BigInt(token as string)).toBeGreaterThan(held.token)
})

test('the head of the line is killed before the key is free: passed over within its ttl and a poll', async () => {
  const [holder, head, next] = (await stage.workers({}, { ttl }, {})) as [Worker, Worker, Worker]
  const held = await holder.hold('k')
  head.acquire('k')
  await stage.inLine('k', 1)
  const waiting = next.acquire('k')
  await stage.inLine('k', 2)
  const killed = clock()
  await head.kill()
  expect(await holder.release(held.id)).toBe('released')
  const granted = await next.granted(waiting)
  expect(granted.at - killed).toBeLessThan(ttl + 1_000 + slack)
})

test('the head of the line is killed and its ttl is over: skipped at once', async () => {
  const [holder, head, next] = (await stage.workers({}, { ttl: 1_000 }, {})) as [Worker, Worker, Worker]
  const held = await holder.hold('k')
  head.acquire('k')
  await stage.inLine('k', 1)
  const waiting = next.acquire('k')
  await stage.inLine('k', 2)
  await head.kill()
  await stage.inLine('k', 1)
  const released = clock()
  await holder.release(held.id)
  expect((await next.granted(waiting)).at - released).toBeLessThan(slack)
})

test('half of those in line are killed: the others are served in order, and nobody else', async () => {
  const [holder, ...line] = await stage.workers({}, ...Array.from({ length: 6 }, () => ({ ttl: 1_500 })))
  const held = await (holder as Worker).hold('k')
  const waiting: string[] = []
  for (const [i, worker] of line.entries()) {
    waiting.push(worker.acquire('k'))
    await stage.inLine('k', i + 1)
  }
  await Promise.all(line.filter((_, i) => i % 2 === 0).map(worker => worker.kill()))
  await holder?.release(held.id)
  let last = held.token
  let at = 0
  for (const [i, worker] of line.entries()) {
    if (i % 2 === 0) continue
    const granted = await worker.granted(waiting[i] ?? '')
    expect(granted.token).toBeGreaterThan(last)
    expect(granted.at).toBeGreaterThan(at)
    expect(await worker.release(waiting[i] ?? '')).toBe('released')
    last = granted.token
    at = granted.at
  }
})

test('a process that is killed leaves nothing: its sessions go once their time is over', async () => {
  const [dead, other] = (await stage.workers({ ttl: 1_000 }, {})) as [Worker, Worker]
  await dead.hold('k')
  await other.hold('elsewhere')
  dead.acquire('elsewhere')
  await stage.inLine('elsewhere', 1)
  await dead.kill()
  const rest = other.acquire('k')
  await other.granted(rest)
  // Nobody waits any more: what is left of it goes with the tick after the other's next heartbeat, a third of its ttl.
  await until(async () => (await stage.sql('select from $schema.sessions')).length === 1, { within: 15_000 })
  expect(await stage.sql('select from $schema.waiters')).toEqual([])
})
