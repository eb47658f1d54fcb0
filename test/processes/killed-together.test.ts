// Processes that are killed while they hold a key with others, or several keys, or wait for that: what was theirs moves on
// within the ttl of the dead and one poll.
import { expect, test } from 'vitest'
import { Stage } from './stage.ts'
import type { Kind, Worker } from './worker.ts'

const stage = new Stage()
const ttl = 1_500
const within = 15_000

interface Wanted extends Kind {
  readonly key: string | readonly string[]
  readonly options: { readonly mode?: 'shared'; readonly permits?: number }
}

// A semaphore stays one: its key is none of the locks'.
const holders = {
  'a reader': { key: 'k', options: { mode: 'shared' } },
  'a writer': { key: 'k', options: {} },
  'of permits': { key: 'pair', options: { permits: 2 }, capacity: 2 },
  'of several keys': { key: ['j', 'k'], options: {} },
} satisfies Record<string, Wanted>
const waiters = {
  'a reader': holders['a reader'],
  'a writer': holders['a writer'],
  'who wants several keys': holders['of several keys'],
}

async function workers(count: number, ...mortal: number[]): Promise<Worker[]> {
  return await stage.workers(...Array.from({ length: count }, (_, i) => (mortal.includes(i) ? { ttl } : {})))
}

for (const [holder, held] of Object.entries<Wanted>(holders)) {
  const isSemaphore = held.key === 'pair'
  const waiting: Record<string, Wanted> = isSemaphore ? { 'who wants permits': held } : waiters
  for (const [waiter, wanted] of Object.entries(waiting)) {
    // Two readers do not wait for each other.
    if (holder === 'a reader' && waiter === 'a reader') continue
    test(`a holder is killed, ${holder}: ${waiter} comes in`, async () => {
      const [dying, next] = (await workers(2, 0)) as [Worker, Worker]
      await dying.hold(held.key, held.options, held)
      const id = next.acquire(wanted.key, wanted.options, wanted)
      await stage.inLine(isSemaphore ? 'pair' : 'k', 1)
      await dying.kill()
      await next.granted(id, within)
    })
  }
}

for (const [waiter, wanted] of Object.entries<Wanted>(waiters)) {
  test(`the head of the line is killed, ${waiter}: the writer behind it comes in`, async () => {
    const [holder, dying, next] = (await workers(3, 1)) as [Worker, Worker, Worker]
    const held = await holder.hold('k')
    dying.acquire(wanted.key, wanted.options, wanted)
    await stage.inLine('k', 1)
    const id = next.acquire('k')
    await stage.inLine('k', 2)
    await dying.kill()
    await holder.release(held.id)
    await next.granted(id, within)
  })
}

test('who wants several keys is killed while it keeps one closed: that one moves on while the other is still held', async () => {
  const [holder, dying, next] = (await workers(3, 1)) as [Worker, Worker, Worker]
  await holder.hold('k')
  dying.acquire(['j', 'k'])
  await stage.inLine('j', 1)
  const id = next.acquire('j', { mode: 'shared' })
  await stage.inLine('j', 2)
  await dying.kill()
  await next.granted(id, within)
})

test('who waits for more permits than are free is killed: those behind it come in', async () => {
  const [holder, dying, next] = (await workers(3, 1)) as [Worker, Worker, Worker]
  const of = { capacity: 3 }
  await holder.hold('three', { permits: 2 }, of)
  dying.acquire('three', { permits: 3 }, of)
  await stage.inLine('three', 1)
  const id = next.acquire('three', {}, of)
  await stage.inLine('three', 2)
  await dying.kill()
  await next.granted(id, within)
})

test('the permits of the dead come back, and those of the living stay', async () => {
  const [living, dying, next] = (await workers(3, 1)) as [Worker, Worker, Worker]
  const of = { capacity: 3 }
  await living.hold('three', {}, of)
  await dying.hold('three', { permits: 2 }, of)
  const id = next.acquire('three', { permits: 2 }, of)
  await stage.inLine('three', 1)
  await dying.kill()
  await next.granted(id, within)
  const out = await stage.sql(`select sum(permits)::int as out from $schema.held where key = 'three'`)
  expect(out).toEqual([{ out: 3 }])
})

test('one reader of many is killed: the others read on, and a writer waits for the last of them', async () => {
  const [dying, one, other, writer] = (await workers(4, 0)) as [Worker, Worker, Worker, Worker]
  const shared = { mode: 'shared' } as const
  await dying.hold('k', shared)
  const reading = [await one.hold('k', shared), await other.hold('k', shared)] as const
  const id = writer.acquire('k')
  await stage.inLine('k', 1)
  await dying.kill()
  // It goes before anybody else has done anything.
  await stage.holding('k', 2)
  for (const [i, worker] of [one, other].entries())
    expect(await worker.gates(reading[i as 0 | 1].id)).toMatchObject({ state: 'held', aborted: false })
  await stage.inLine('k', 1)
  await one.release(reading[0].id)
  await stage.holding('k', 1)
  await stage.inLine('k', 1)
  await other.release(reading[1].id)
  await writer.granted(id, within)
})
