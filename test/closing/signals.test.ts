// closeOnSignals: what becomes of a process that is asked to end. Its locks last for 30 s without it.
import { describe, expect, test } from 'vitest'
import { BadOptionError } from '../../src/index.ts'
import { canBeFirst, startFirst } from '../support/first-process.ts'
import { until } from '../support/until.ts'
import { Stage, script } from './stage.ts'

const stage = new Stage()
const signals = ['SIGTERM', 'SIGINT'] as const
const listeners = () => signals.map(signal => process.listenerCount(signal))

test.each(signals)(
  '%s: the section ends under its lock, the next one has it, the signal ends the process',
  async signal => {
    const child = stage.start('finishes')
    await child.message('inside')
    const next = stage.other.acquire('k')
    await stage.inLine()
    const ended = child.kill(signal)
    expect(await child.message('told')).toMatchObject({ reason: 'shutdown' })
    expect(await child.message('leaving')).toMatchObject({ state: 'held' })
    expect((await next).state).toBe('held')
    expect(await ended).toBe(signal)
    expect(child.said.map(({ name }) => name)).toEqual(['inside', 'told', 'leaving', 'left'])
    // Its sessions were closed, and not left to their time.
    expect(await stage.sql('select from $schema.sessions where owner like $1', [`%:${child.pid}`])).toEqual(
      [],
    )
  },
)

test('a lock that was acquired by hand is given back at once', async () => {
  const child = stage.start('holds by hand')
  await child.message('inside')
  const next = stage.other.acquire('k')
  await stage.inLine()
  expect(await child.kill('SIGTERM')).toBe('SIGTERM')
  expect((await next).state).toBe('held')
})

test.each(signals)('a second signal, %s, ends it at once, and leaves the lock to its ttl', async second => {
  const child = stage.start('never finishes')
  await child.message('inside')
  const ended = child.kill('SIGTERM')
  await child.message('told')
  void child.kill(second)
  expect(await ended).toBe(second)
  expect(await stage.holders()).toBe(1)
})

test('a section that does not end is waited for as long as was said', async () => {
  const child = stage.start('has not long')
  await child.message('inside')
  expect(await child.kill('SIGTERM')).toBe('SIGTERM')
  expect(child.said.map(({ name }) => name)).toEqual(['inside', 'told'])
  expect(await stage.holders()).toBe(0)
})

test('in line: the acquire is rejected, and the place given up', async () => {
  const lock = await stage.other.acquire('taken')
  const child = stage.start('waits')
  await stage.inLine('taken')
  expect(await child.kill('SIGTERM')).toBe('SIGTERM')
  expect(child.said).toEqual([{ name: 'refused', code: 'closed' }])
  expect(await stage.sql('select from $schema.waiters')).toEqual([])
  expect(lock.state).toBe('held')
})

describe('taken off', () => {
  test('before a signal comes: it is what it was', async () => {
    const child = stage.start('takes them off')
    await child.message('inside')
    expect(await child.kill('SIGTERM')).toBe('SIGTERM')
    expect(child.said.map(({ name }) => name)).toEqual(['inside'])
    expect(await stage.holders()).toBe(1)
  })

  test('while it closes: it is closed all the same, and the end is the caller’s', async () => {
    const child = stage.start('takes them off when told')
    await child.message('inside')
    expect(await child.kill('SIGTERM')).toBe(5)
    expect(child.said.at(-1)).toMatchObject({ name: 'closed' })
    expect(await stage.holders()).toBe(0)
  })
})

test('where something else listens as well, the end is left to that', async () => {
  const child = stage.start('is not alone in listening')
  await child.message('inside')
  expect(await child.kill('SIGTERM')).toBe(7)
  expect(await child.message('leaving')).toMatchObject({ state: 'held' })
  expect(await stage.holders()).toBe(0)
})

test('two clients in a process: it ends when both are closed', async () => {
  const child = stage.start('has two clients')
  await until(() => child.said.length === 2)
  expect(await child.kill('SIGTERM')).toBe('SIGTERM')
  expect(child.said.filter(({ name }) => name === 'leaving')).toHaveLength(2)
  expect([await stage.holders('k'), await stage.holders('l')]).toEqual([0, 0])
})

test.runIf(canBeFirst)(
  'the first process of a container ends with the code that a shell would say',
  async () => {
    const { said, pid, closed } = startFirst(script, stage.args('finishes'))
    await until(() => said.some(({ name }) => name === 'inside'))
    process.kill(pid(), 'SIGTERM')
    expect(await closed).toEqual([143, null])
    expect(said.at(-1)).toMatchObject({ name: 'left' })
    expect(await stage.holders()).toBe(0)
  },
)

test('nobody listens unasked; what was asked for goes with the client, or by hand', async () => {
  const before = listeners()
  const lock = await stage.other.acquire('k')
  await lock.transaction(() => {})
  expect(listeners()).toEqual(before)
  const once = before.map(count => count + 1)
  const off = stage.other.closeOnSignals()
  expect(listeners()).toEqual(once)
  off()
  off()
  expect(listeners()).toEqual(before)
  {
    using _ = stage.other.closeOnSignals({ timeout: '20s' })
    expect(listeners()).toEqual(once)
  }
  expect(listeners()).toEqual(before)
  stage.other.closeOnSignals()
  await stage.other.close()
  expect(listeners()).toEqual(before)
})

test('a timeout that is none is refused, and nobody listens', () => {
  const before = listeners()
  expect(() => stage.other.closeOnSignals({ timeout: -1 })).toThrow(BadOptionError)
  expect(listeners()).toEqual(before)
})
