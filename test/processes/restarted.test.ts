// The server goes away: for less than the ttl nothing is lost, for more everybody is told, and it works again after it.
import { describe, expect, test } from 'vitest'
import { Child } from '../support/child.ts'
import { until } from '../support/until.ts'
import { serverStage } from './server.ts'
import { clock, type Worker } from './worker.ts'

const { stage, server } = serverStage()
const step = 2n ** 32n

/** Kills one backend, as the kernel does when memory is short: the server starts all others anew. */
async function killBackend(): Promise<void> {
  const [row] = await stage.sql(
    `select pid from pg_stat_activity where datname = current_database() and application_name = 'fencepost beat'`,
  )
  process.kill(row?.pid, 'SIGKILL')
  await until(
    async () => {
      const rows = await stage.sql('select from pg_stat_activity where pid = $1', [row?.pid])
      return rows.length === 0
    },
    { within: 20_000, what: 'the server has started its backends anew' },
  )
}

describe.each([
  { name: 'a restart in good order', shake: () => server().restart('fast') },
  { name: 'a crash of the server', shake: () => server().restart('immediate') },
  { name: 'a crash of one backend', shake: killBackend },
])('$name, shorter than the ttl', ({ shake }) => {
  test('loses nothing: the holder holds, the line keeps its order, and tokens rise', async () => {
    const options = { ttl: '15s' }
    const [holder, first, second] = (await stage.workers(options, options, options)) as [
      Worker,
      Worker,
      Worker,
    ]
    const held = await holder.hold('k')
    const waiting = first.acquire('k')
    await stage.inLine('k', 1)
    const behind = second.acquire('k')
    await stage.inLine('k', 2)

    await shake()
    // The row is there, and so is everybody's time: the first heartbeats have begun it anew.
    const [row] = await stage.sql(`select token from $schema.locks where key = 'k'`)
    expect(BigInt(row?.token)).toBe(held.token)
    await stage.inLine('k', 2)
    await until(async () => (await holder.gates(held.id)).state === 'held', { within: 10_000 })
    const states = (await holder.history(held.id)).map(each => each.state)
    expect(states).not.toContain('lost')
    expect(states).not.toContain('suspended')

    expect(await holder.release(held.id)).toBe('released')
    const one = await first.granted(waiting)
    expect(one.token).toBeGreaterThanOrEqual(held.token + step / 2n)
    expect(second.said.some(({ name }) => name === 'granted')).toBe(false)
    expect(await first.release(waiting)).toBe('released')
    expect((await second.granted(behind)).token).toBeGreaterThan(one.token)
    expect(await second.release(behind)).toBe('released')
    for (const worker of [holder, first, second]) {
      expect(worker.said.filter(({ name }) => name === 'aborted' || name === 'refused')).toEqual([])
      expect(worker.log).toEqual([])
    }
  })
})

test('twice in a row, and the tokens rise with each', async () => {
  const [worker] = (await stage.workers({ ttl: '15s' })) as [Worker]
  const tokens: bigint[] = []
  for (let round = 0; round < 3; round++) {
    if (round > 0) await server().restart('immediate')
    const held = await worker.hold('k')
    tokens.push(held.token)
    expect(await worker.release(held.id)).toBe('released')
  }
  expect((tokens[1] ?? 0n) - (tokens[0] ?? 0n)).toBeGreaterThanOrEqual(step / 2n)
  expect((tokens[2] ?? 0n) - (tokens[1] ?? 0n)).toBeGreaterThanOrEqual(step / 2n)
})

test.each(['fast', 'immediate'] as const)(
  'longer than the ttl (%s): all are told, and it works again',
  async mode => {
    const options = { ttl: '1.5s' }
    const [holder, waiter] = (await stage.workers(options, options)) as [Worker, Worker]
    const held = await holder.hold('k')
    const waiting = waiter.acquire('k')
    await stage.inLine('k', 1)
    const stopped = clock()
    await server().stop(mode)
    const aborted = await holder.message('aborted')
    expect(aborted).toMatchObject({ id: held.id, state: 'lost', reason: 'unreachable' })
    expect((aborted.at as number) - stopped).toBeLessThan(1_500 + 1_000)
    const refused = await waiter.answer(waiting)
    expect(refused).toMatchObject({ name: 'refused', code: 'lost', reason: 'unreachable' })
    expect(await holder.release(held.id)).toBe('unreachable')

    await server().start()
    // The row that was left begins a ttl anew with the server; then it is somebody else's.
    const again = await waiter.hold('k')
    expect(again.token).toBeGreaterThanOrEqual(held.token + step / 2n)
    const behind = holder.acquire('k')
    await stage.inLine('k', 1)
    expect(await waiter.release(again.id)).toBe('released')
    expect((await holder.granted(behind)).token).toBeGreaterThan(again.token)
    expect(await holder.release(behind)).toBe('released')
    for (const worker of [holder, waiter]) expect(worker.log).toEqual([])
  },
)

test('an acquire while the server is away waits for it within its ttl', async () => {
  const [worker] = (await stage.workers({ ttl: '20s' })) as [Worker]
  await worker.release((await worker.hold('warm')).id)
  await server().stop()
  const waiting = worker.acquire('k')
  await server().start()
  await worker.granted(waiting, 20_000)
  expect(await worker.release(waiting)).toBe('released')
})

test('close while the server is away ends, in bounded time', async () => {
  const [worker] = (await stage.workers({ ttl: '2s' })) as [Worker]
  await worker.hold('k')
  await server().stop()
  const began = clock()
  worker.send('close')
  expect(await worker.exit).toBe(0)
  expect(clock() - began).toBeLessThan(8_000)
  expect(worker.log).toEqual([])
  await server().start()
})

test('a process with nothing held or pending ends by itself while the server is away, and never called close', async () => {
  const options = { connectionString: stage.db.url, schema: stage.db.schema, ttl: '20s' }
  const child = new Child(new URL('./outage.mjs', import.meta.url), { args: [JSON.stringify(options)] })
  await child.message('holding')
  await stage.inLine('k', 1)
  await server().stop()
  child.send('give up')
  expect(await child.message('idle')).toMatchObject({ outcome: 'released', code: 'aborted' })
  expect(await child.exit).toBe(0)
  expect(child.log).toEqual([])
  await server().start()
})
