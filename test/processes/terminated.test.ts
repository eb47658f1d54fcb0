// Every connection is ended by the server, again and again, while locks are held and waited for.
import { expect, test } from 'vitest'
import { Fencepost, type Lock } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { Stage } from './stage.ts'
import type { Worker } from './worker.ts'

const stage = new Stage()
const rounds = 5

/** The clients' connections. */
async function connections(): Promise<number[]> {
  const rows = await stage.sql(
    `select pid from pg_stat_activity where datname = current_database() and application_name like 'fencepost %'`,
  )
  return rows.map(row => row.pid)
}

/** Ends all of them, and waits until each client is back with its beat connection. @returns how many were ended */
async function terminateAll(clients: number): Promise<number> {
  const pids = await connections()
  await stage.sql('select pg_terminate_backend(pid) from unnest($1::int[]) pid', [pids])
  await until(
    async () => {
      const rows = await stage.sql(
        `select from pg_stat_activity where datname = current_database() and application_name = 'fencepost beat'
            and not pid = any($1)`,
        [pids],
      )
      return rows.length >= clients
    },
    { within: 10_000, what: 'the clients are back' },
  )
  return pids.length
}

const grants = async () => await stage.sql('select key, token from $schema.locks order by key')

test('five times over: the processes live, nothing is lost, the line keeps its order, and no grant is a ghost', async () => {
  const [holder, ...line] = (await stage.workers(
    { ttl: '6s' },
    { ttl: '6s' },
    { ttl: '6s' },
    { ttl: '6s' },
  )) as [Worker, ...Worker[]]
  const held = await holder.hold('k')
  const alone = await holder.hold('alone')
  const waiting: string[] = []
  for (const [i, worker] of line.entries()) {
    waiting.push(worker.acquire('k'))
    await stage.inLine('k', i + 1)
  }
  let ended = 0
  for (let round = 0; round < rounds; round++) ended += await terminateAll(4)
  expect(ended).toBeGreaterThanOrEqual(4 * rounds)

  for (const { id, token } of [held, alone]) {
    const gates = await holder.gates(id)
    expect(gates).toMatchObject({ aborted: false, assertHeld: 'passed', token: String(token) })
    expect((await holder.history(id)).map(each => each.state)).not.toContain('lost')
  }
  await stage.inLine('k', line.length)
  expect(await grants()).toEqual([
    { key: 'alone', token: String(alone.token) },
    { key: 'k', token: String(held.token) },
  ])

  expect(await holder.release(held.id)).toBe('released')
  let last = held.token
  for (const [i, worker] of line.entries()) {
    const granted = await worker.granted(waiting[i] ?? '')
    expect(granted.token).toBeGreaterThan(last)
    last = granted.token
    // Nobody behind has it, too.
    expect(line.slice(i + 1).flatMap(other => other.said.filter(({ name }) => name === 'granted'))).toEqual(
      [],
    )
    expect(await worker.release(waiting[i] ?? '')).toBe('released')
  }
  expect(await holder.release(alone.id)).toBe('released')
  expect(await grants()).toEqual([])
  expect([holder, ...line].flatMap(worker => worker.log)).toEqual([])
})

test('in the middle of acquiring and releasing: every section is alone, and every call is answered', async () => {
  const clients = [1, 2, 3].map(
    () => new Fencepost({ pool: stage.db.pool(), schema: stage.db.schema, ttl: '6s' }),
  )
  const keys = ['a', 'b']
  const inside = new Map<string, number>()
  const tokens = new Map<string, bigint>()
  const faults: string[] = []
  let sections = 0
  let done = false
  const work = async (client: Fencepost, key: string) => {
    while (!done) {
      await client.withLock(key, async (lock: Lock) => {
        if ((inside.get(key) ?? 0) !== 0) faults.push(`two in ${key}`)
        if (lock.token <= (tokens.get(key) ?? 0n)) faults.push(`token of ${key} fell`)
        inside.set(key, (inside.get(key) ?? 0) + 1)
        tokens.set(key, lock.token)
        await new Promise(setImmediate)
        inside.set(key, (inside.get(key) ?? 0) - 1)
        sections++
      })
    }
  }
  const working = Promise.all(
    clients.flatMap(client => keys.flatMap(key => [work(client, key), work(client, key)])),
  )
  for (let round = 0; round < rounds; round++) {
    const before = sections
    await until(() => sections > before + 20, { within: 10_000 })
    await terminateAll(clients.length)
  }
  const before = sections
  await until(() => sections > before + 20, { within: 10_000 })
  done = true
  await working
  expect(faults).toEqual([])
  expect(await grants()).toEqual([])
  await Promise.all(clients.map(client => client.close()))
})

test('while nothing is held or waited for, and then it is used again', async () => {
  const [worker] = (await stage.workers({})) as [Worker]
  const first = await worker.hold('k')
  await worker.release(first.id)
  for (let round = 0; round < rounds; round++) await terminateAll(1)
  const second = await worker.hold('k')
  expect(second.token).toBeGreaterThan(first.token)
  expect(await worker.release(second.id)).toBe('released')
  expect(worker.log).toEqual([])
})
