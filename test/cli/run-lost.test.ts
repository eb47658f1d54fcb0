// The lock is lost while the command runs: when, and by what, the command is ended.
import { escapeIdentifier } from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import { type PostgresProxy, startProxy } from '../support/proxy.ts'
import { clientOptions } from '../support/twist.ts'
import { until } from '../support/until.ts'
import { fencepost } from './fencepost.ts'
import { isAlive, type Run, RunStage, stateOf } from './run.ts'

const stage = new RunStage()
/** Whether the command has a process group of its own. */
const groups = [
  { name: 'in a group of its own', group: [] },
  { name: 'in the foreground', group: ['--foreground'] },
]
const sessions = () => `${escapeIdentifier(stage.db.schema)}.sessions`

describe('the database is away', () => {
  let proxy: PostgresProxy
  beforeEach(async () => {
    proxy = await startProxy(stage.db.twistedUrl)
  })
  afterEach(() => proxy.close())

  const run = (command: readonly string[], group: readonly string[] = []) =>
    stage.run({ url: proxy.url(stage.db.twistedUrl), command, flags: ['--ttl', '8s', '--json', ...group] })

  /** Milliseconds from now until the database may give the lock to another. */
  async function left(): Promise<number> {
    const [row] = await stage.db.query<{ left: number }>(
      `select extract(epoch from max(expires_at) - clock_timestamp())::float8 * 1000 as left from ${sessions()}`,
    )
    return row?.left ?? 0
  }

  test.each(groups)('a command that listens has ended before trust does; 76: $name', async ({ group }) => {
    const running = run(['leaves'], group)
    const { pid } = await running.up()
    proxy.blackHole()
    await until(() => !isAlive(pid), { within: 10_000 })
    expect(await left()).toBeGreaterThan(1_500)
    proxy.release()
    expect(await running.exit).toBe(76)
    expect(running.notes).toContainEqual(expect.objectContaining({ event: 'ending' }))
  })

  test('one that ignores signals, and what it has forked, is gone before another can have the lock', async () => {
    const running = run(['stubborn', 'forks'])
    const { pid } = await running.up()
    const { pid: forked } = await running.message('forked')
    proxy.blackHole()
    await until(() => !isAlive(pid) && !isAlive(forked), { within: 10_000 })
    expect(await left()).toBeGreaterThan(0)
    for (const who of ['command', 'forked']) expect(running.signals(who)).toContain('SIGTERM')
    // The database stays away: the wrapper does not wait for it.
    const ended = performance.now()
    expect(await running.exit).toBe(76)
    expect(performance.now() - ended).toBeLessThan(6_000)
  })

  test('in the foreground one that ignores signals is gone by then, and what it has forked is left to', async () => {
    const running = run(['stubborn', 'forks'], ['--foreground'])
    const { pid } = await running.up()
    const { pid: forked } = await running.message('forked')
    proxy.blackHole()
    await until(() => !isAlive(pid), { within: 10_000 })
    expect(await left()).toBeGreaterThan(0)
    expect(running.signals()).toContain('SIGTERM')
    await until(() => !isAlive(running.pid), { within: 6_000 })
    expect(isAlive(forked)).toBe(true)
    expect(running.signals('forked')).toEqual([])
    process.kill(Number(forked), 'SIGKILL')
    expect(await running.exit).toBe(76)
  })

  test('as the command ends by itself: its own code, for it was held', async () => {
    const running = run(['stubborn'])
    await running.up()
    proxy.blackHole()
    running.send('exit', { code: 4 })
    expect(await running.exit).toBe(4)
    expect(running.notes).not.toContainEqual(expect.objectContaining({ event: 'lost' }))
  })

  test('for less than that: the command does not notice', async () => {
    const running = run(['stubborn'])
    await running.up()
    proxy.cut()
    await proxy.accept(false)
    const before = await left()
    await until(async () => (await left()) < before - 3_000)
    await proxy.accept(true)
    await until(async () => (await left()) > 6_000, { within: 10_000 })
    running.send('exit', { code: 4 })
    expect(await running.exit).toBe(4)
    expect(running.signals()).toEqual([])
  })
})

test('the database says that it is over: killed at once, for another may hold it', async () => {
  const running = stage.run({
    command: ['stubborn', 'forks'],
    flags: ['--ttl', '4s', '--grace', '20s', '--json'],
  })
  const { key, token } = await running.up()
  await running.message('forked')
  await stage.db.query(`update ${sessions()} set expires_at = '-infinity'`)
  // Settles when nobody has its stdout any more.
  expect(await running.exit).toBe(76)
  expect([...running.signals(), ...running.signals('forked')]).toEqual([])
  expect(running.notes).toContainEqual({ event: 'ending', key, reason: 'expired', left: 0 })
  expect(running.notes).toContainEqual({ event: 'ended', key, token, code: 137, signal: 'SIGKILL' })
})

test('the same in the foreground', async () => {
  const running = stage.run({ command: ['stubborn'], flags: ['--ttl', '4s', '--foreground'] })
  const { pid } = await running.up()
  await stage.db.query(`update ${sessions()} set expires_at = '-infinity'`)
  expect(await running.exit).toBe(76)
  expect(isAlive(pid)).toBe(false)
  expect(running.signals()).toEqual([])
})

test.each(groups)('an operator takes it: killed at once, and says so: $name', async ({ group }) => {
  const running = stage.run({ command: ['stubborn'], flags: ['--ttl', '4s', '--json', ...group] })
  const { key, token, pid } = await running.up()
  const args = ['release', String(key), '--reason', 'a test', '--schema', stage.db.schema]
  expect(await fencepost(args, { DATABASE_URL: stage.db.twistedUrl })).toMatchObject({ code: 0 })
  expect(await running.exit).toBe(76)
  expect(isAlive(pid)).toBe(false)
  expect(running.signals()).toEqual([])
  expect(running.notes).toContainEqual({ event: 'ending', key, reason: 'forced', left: 0 })
  expect(running.notes).toContainEqual({ event: 'released', key, token, outcome: 'forced' })
  await stage.nothingLeft()
})

test('another has it just as the command ends by itself: 76, whatever its own code was', async () => {
  // No renewal comes between.
  const running = stage.run({ key: 'k', flags: ['--ttl', '60s'] })
  await running.up()
  await stage.db.query(`update ${sessions()} set expires_at = '-infinity'`)
  await taken(running)
  running.send('exit', { code: 0 })
  expect(await running.exit).toBe(76)
  expect(running.log).toContain('fencepost: "k" was lost (expired) before the command ended')
})

test('an operator takes it just as the command ends by itself: 76', async () => {
  const running = stage.run({ key: 'k', flags: ['--ttl', '60s'] })
  await running.up()
  const args = ['release', 'k', '--now', '--reason', 'a test', '--schema', stage.db.schema]
  expect(await fencepost(args, { DATABASE_URL: stage.db.twistedUrl })).toMatchObject({ code: 0 })
  running.send('exit', { code: 0 })
  expect(await running.exit).toBe(76)
  expect(running.log).toContain('fencepost: "k" was lost (forced) before the command ended')
})

test('people are told in a sentence', async () => {
  const running = stage.run({ key: 'k', flags: ['--ttl', '4s'] })
  await running.up()
  await stage.db.query(`update ${sessions()} set expires_at = '-infinity'`)
  expect(await running.exit).toBe(76)
  expect(running.log).toEqual(['fencepost: "k" is lost (expired): ending the command'])
})

/** Another has the key of a wrapper that does not know it yet. */
async function taken(running: Run): Promise<void> {
  await using fp = new Fencepost(clientOptions(stage.db))
  const lock = await fp.acquire(String(running.said[0]?.key))
  expect(lock.token).toBeGreaterThan(BigInt(String(running.said[0]?.token)))
  await fp.close()
}

test.each(groups)(
  'the wrapper stands still past the ttl: the command does not go on: $name',
  async ({ group }) => {
    const running = stage.run({ command: ['stubborn'], flags: ['--ttl', '3s', ...group] })
    await running.up()
    running.stop()
    await taken(running)
    running.cont()
    expect(await running.exit).toBe(76)
    expect(running.signals()).toEqual([])
  },
)

describe('the stop of a terminal', () => {
  test('stops the command, too, and both go on', async () => {
    const running = stage.run({ command: ['stubborn'] })
    const { pid } = await running.up()
    process.kill(running.pid, 'SIGTSTP')
    await until(() => stateOf(pid) === 'T' && stateOf(running.pid) === 'T')
    running.cont()
    await running.message('signal')
    running.send('exit', { code: 0 })
    expect(await running.exit).toBe(0)
    expect(running.signals()).toEqual(['SIGCONT'])
  })

  test('past the ttl: the command does not go on', async () => {
    const running = stage.run({ command: ['stubborn'], flags: ['--ttl', '3s'] })
    await running.up()
    process.kill(running.pid, 'SIGTSTP')
    await taken(running)
    running.cont()
    expect(await running.exit).toBe(76)
    expect(running.signals()).toEqual([])
  })
})
