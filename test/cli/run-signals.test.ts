// What reaches the command, and what ends it, when a signal reaches the wrapper or the command itself.
import { describe, expect, test } from 'vitest'
import { until } from '../support/until.ts'
import { isAlive, RunStage, stateOf } from './run.ts'

const stage = new RunStage()

test.each(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH'] as const)(
  '%s is passed on, once, and a command that goes on is left to',
  async signal => {
    const run = stage.run({ command: ['stubborn', 'forks'] })
    await run.up()
    const { pid } = await run.message('forked')
    process.kill(run.pid, signal)
    // It comes before the answer to what is sent after it.
    await until(() => run.signals().length > 0 && run.signals('forked').length > 0)
    run.send('echo', { text: 'still here' })
    await run.message('echoed')
    expect(run.signals()).toEqual([signal])
    expect(run.signals('forked')).toEqual([signal])
    run.send('exit', { code: 5 })
    // What it has left running is not the wrapper's any more, but holds the pipe that we read.
    await until(() => !isAlive(run.pid))
    expect(isAlive(pid)).toBe(true)
    process.kill(Number(pid), 'SIGKILL')
    expect(await run.exit).toBe(5)
  },
)

test.each(['SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const)(
  '--foreground: %s is passed on, once, to the command alone',
  async signal => {
    const run = stage.run({ command: ['stubborn', 'forks'], flags: ['--foreground'] })
    await run.up()
    const { pid } = await run.message('forked')
    process.kill(run.pid, signal)
    await until(() => run.signals().length > 0)
    run.send('echo', { text: 'still here' })
    await run.message('echoed')
    expect(run.signals()).toEqual([signal])
    run.send('exit', { code: 5 })
    await until(() => !isAlive(run.pid))
    expect(isAlive(pid)).toBe(true)
    expect(run.signals('forked')).toEqual([])
    process.kill(Number(pid), 'SIGKILL')
    expect(await run.exit).toBe(5)
  },
)

test.each(['SIGINT', 'SIGQUIT', 'SIGWINCH'] as const)(
  '--foreground: %s is left to the terminal, which tells all of the group',
  async signal => {
    const run = stage.run({ command: ['stubborn'], flags: ['--foreground'] })
    await run.up()
    process.kill(run.pid, signal)
    // Passed on, and handled after the one before it.
    process.kill(run.pid, 'SIGUSR2')
    await until(() => run.signals().includes('SIGUSR2'))
    run.send('echo', { text: 'still here' })
    await run.message('echoed')
    expect(run.signals()).toEqual(['SIGUSR2'])
    run.send('exit', { code: 5 })
    expect(await run.exit).toBe(5)
  },
)

test.each([
  ['SIGTERM', 143],
  ['SIGINT', 130],
  ['SIGHUP', 129],
  ['SIGQUIT', 131],
  ['SIGUSR2', 140],
] as const)('%s that ends the command is %i, and the lock is free', async (signal, code) => {
  const run = stage.run()
  await run.up()
  expect(await run.kill(signal)).toBe(code)
  await stage.nothingLeft()
})

test('a command that ends in its own way answers with its own code', async () => {
  const run = stage.run({ command: ['leaves'] })
  await run.up()
  expect(await run.kill('SIGTERM')).toBe(7)
})

test.each([
  ['SIGKILL', 137],
  ['SIGTERM', 143],
  ['SIGINT', 130],
] as const)('%s of the command itself is %i, and the lock is free', async (signal, code) => {
  const run = stage.run()
  const { pid } = await run.up()
  process.kill(Number(pid), signal)
  expect(await run.exit).toBe(code)
  await stage.nothingLeft()
})

describe('SIGKILL of the wrapper', () => {
  test.each([
    { name: 'in a group of its own', flags: [] },
    { name: 'in the foreground', flags: ['--foreground'] },
  ])('ends the command with SIGTERM: $name', async ({ flags }) => {
    const run = stage.run({ command: ['leaves'], flags })
    const { pid } = await run.up()
    // Settles when nobody has its stdout any more, the command included.
    expect(await run.kill('SIGKILL')).toBe('SIGKILL')
    await until(() => !isAlive(pid))
  })

  test('kills one that does not listen, and what it has forked, once the grace is over', async () => {
    const run = stage.run({ command: ['stubborn', 'forks'], flags: ['--grace', '500ms'] })
    const { pid } = await run.up()
    const forked = await run.message('forked')
    expect(await run.kill('SIGKILL')).toBe('SIGKILL')
    for (const who of ['command', 'forked']) expect(run.signals(who)).toContain('SIGTERM')
    await until(() => !isAlive(pid) && !isAlive(forked.pid))
  })

  test('in the foreground it kills one that does not listen, and what it has forked is left to', async () => {
    const run = stage.run({
      command: ['stubborn', 'forks'],
      flags: ['--grace', '500ms', '--foreground'],
    })
    const { pid } = await run.up()
    const forked = await run.message('forked')
    process.kill(run.pid, 'SIGKILL')
    await until(() => !isAlive(pid))
    expect(run.signals()).toContain('SIGTERM')
    expect(isAlive(forked.pid)).toBe(true)
    expect(run.signals('forked')).toEqual([])
    process.kill(Number(forked.pid), 'SIGKILL')
    expect(await run.exit).toBe('SIGKILL')
  })

  test('wakes a command that was stopped, so that it can end in its own way', async () => {
    const run = stage.run({ command: ['stubborn'], flags: ['--grace', '2s'] })
    const { pid } = await run.up()
    process.kill(Number(pid), 'SIGSTOP')
    await until(() => stateOf(pid) === 'T')
    expect(await run.kill('SIGKILL')).toBe('SIGKILL')
    expect(run.signals()).toContain('SIGTERM')
    await until(() => !isAlive(pid))
  })
})
