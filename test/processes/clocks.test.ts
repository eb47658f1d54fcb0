// Processes whose wall clock is wrong, or is moved while they hold.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { expectHeld } from '../support/held.ts'
import { until } from '../support/until.ts'
import { Stage } from './stage.ts'
import { Worker } from './worker.ts'

const stage = new Stage()
const ttl = 2_400
const minutes = 60_000

// The real thing where it is installed; elsewhere the workers move their own Date.now, which is all that we read.
const libfaketime = '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1'
const hasFaketime = existsSync(libfaketime)
const folder = mkdtempSync(join(tmpdir(), 'fencepost-clock-'))
const file = join(folder, 'offset')
afterAll(() => rmSync(folder, { recursive: true }))

/** A process whose wall clock, and that alone, is off by what the file says, at each moment. */
async function faked(offset: string, options: { ttl: number | string }): Promise<Worker> {
  writeFileSync(file, offset)
  const env = {
    LD_PRELOAD: libfaketime,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    DONT_FAKE_MONOTONIC: '1',
  }
  const worker = stage.adopt(new Worker(stage.db, options, { env }))
  await worker.message('ready')
  return worker
}

/** How far the process's wall clock is from ours. */
async function offsetOf(worker: Worker): Promise<number> {
  worker.send('time')
  return ((await worker.message('time')).wall as number) - Date.now()
}

async function move(worker: Worker, ms: number): Promise<void> {
  if (hasFaketime) writeFileSync(file, `${ms < 0 ? '-' : '+'}${Math.abs(ms) / 1_000}s`)
  else {
    worker.send('step', { ms })
    await worker.message('stepped')
  }
  await until(async () => Math.abs((await offsetOf(worker)) - ms) < 5_000, { what: 'the clock is moved' })
}

const start = async (options: { ttl: number | string }) =>
  hasFaketime ? await faked('+0s', options) : ((await stage.workers(options))[0] as Worker)

describe.each([
  { name: 'ten minutes slow', offset: -10 * minutes },
  { name: 'ten minutes fast', offset: 10 * minutes },
])('a wall clock that is $name from the start', ({ offset }) => {
  test('has no effect on who holds, and for how long', async () => {
    const worker = await start({ ttl })
    await move(worker, offset)
    const [other] = (await stage.workers({ ttl })) as [Worker]
    const held = await worker.hold('k')
    const waiting = other.acquire('k')
    await stage.inLine('k', 1)
    const began = performance.now()
    await until(() => performance.now() - began > 2.5 * ttl, { within: 4 * ttl })
    const periods = await worker.history(held.id)
    expectHeld(periods.map(each => each.state))
    expect(other.said.some(message => message.name === 'granted')).toBe(false)
    expect(await worker.release(held.id)).toBe('released')
    const next = await other.granted(waiting)
    expect(next.token).toBeGreaterThan(held.token)
    // As one in line, too.
    const last = worker.acquire('k')
    await stage.inLine('k', 1)
    await other.release(waiting)
    expect((await worker.granted(last)).token).toBeGreaterThan(next.token)
  })
})

describe.each([
  { name: 'back by ten minutes', offset: -10 * minutes },
  { name: 'ahead by ten minutes', offset: 10 * minutes },
])('a wall clock that is stepped $name', ({ offset }) => {
  test('suspends what is held until the next answer, and nothing is lost', async () => {
    const worker = await start({ ttl: '20s' })
    const held = await worker.hold('k')
    await move(worker, offset)
    await until(async () => (await worker.gates(held.id)).state === 'held')
    const periods = await worker.history(held.id)
    const states = periods.map(each => each.state)
    expect([...new Set(states)]).toEqual(['held', 'suspended'])
    expect(states.at(-1)).toBe('held')
    // For no longer than a heartbeat takes, not until one was due.
    const suspended = periods.filter(({ state }) => state === 'suspended')
    for (const { from, until: end } of suspended) expect(end - from).toBeLessThan(3_000)
    const [row] = await stage.sql(`select token from $schema.locks where key = 'k'`)
    expect(BigInt(row?.token)).toBe(held.token)
    expect(worker.said.some(message => message.name === 'aborted')).toBe(false)
    expect(await worker.release(held.id)).toBe('released')
  })
})

test.runIf(hasFaketime)('a process that starts under a clock that is wrong already', async () => {
  const worker = await faked('-600s', { ttl })
  expect(await offsetOf(worker)).toBeLessThan(-9 * minutes)
  const held = await worker.hold('k')
  const began = performance.now()
  await until(() => performance.now() - began > 2 * ttl, { within: 4 * ttl })
  expectHeld((await worker.history(held.id)).map(each => each.state))
  expect(await worker.release(held.id)).toBe('released')
})
