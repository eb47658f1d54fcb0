import { expect, test } from 'vitest'
import { Child } from './child.ts'
import { until } from './until.ts'

const echo = new URL('./echo.mjs', import.meta.url)

test('speaks in messages, each answered once and in order', async () => {
  await using child = new Child(echo, { args: ['one'] })
  expect(await child.message('ready')).toMatchObject({ args: ['one'], pid: child.pid })
  child.send('ask', { what: 'first' })
  child.send('ask', { what: 'second' })
  expect(await child.message('answer')).toEqual({ name: 'answer', what: 'first', token: String(2n ** 60n) })
  expect(await child.message('answer')).toMatchObject({ what: 'second' })
  await expect(child.message('answer', { within: 50 })).rejects.toThrow('message answer')
  expect(child.log).toEqual(['not a message'])
})

test('stands still while it is stopped', async () => {
  await using child = new Child(echo)
  await child.message('ready')
  child.stop()
  child.send('ask', { what: 'asleep?' })
  await expect(child.message('answer', { within: 200 })).rejects.toThrow()
  child.cont()
  await child.message('answer')
})

test('can be killed, also while it is stopped', async () => {
  const child = new Child(echo)
  await child.message('ready')
  child.stop()
  expect(await child.kill()).toBe('SIGKILL')
  await expect(child.message('answer')).rejects.toThrow('the child ended (SIGKILL)')
  expect(() => process.kill(child.pid, 0)).toThrow()
})

test('shows why it failed', async () => {
  const child = new Child(echo)
  await child.message('ready')
  child.send('fail')
  expect(await child.exit).toBe(1)
  await until(() => child.log.some(line => line.includes('told to')))
})
