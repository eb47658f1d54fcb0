import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { latestVersion } from '../../src/database/migrations/catalog.ts'
import { fencepost } from './fencepost.ts'

// Nobody listens there: what gets as far as connecting ends with another code.
const DATABASE_URL = 'postgres://user:secret@127.0.0.1:1/x'

test.each([
  ['migrate', ['migrate']],
  ['run', ['run', 'k', '--', 'echo', 'started']],
  ['schedule', ['schedule', 's', '* * * * *', '--', 'echo', 'started']],
  ['schedules', ['schedules']],
  ['status', ['status']],
  ['inspect', ['inspect', 'k']],
  ['release', ['release', 'k', '--reason', 'x']],
  ['health', ['health']],
  ['base', ['base']],
  ['elect', ['elect', 'e', '--', 'echo', 'started']],
  ['leader', ['leader', 'e']],
])('%s without a database, and says what to set', async (_, args) => {
  const ran = await fencepost(args)
  expect(ran).toMatchObject({ code: 64, out: '' })
  expect(ran.errors).toContain('--url')
  expect(ran.errors).toContain('DATABASE_URL')
})

test.each(
  [
    ['bogus'],
    ['migrate', 'extra'],
    ['migrate', '--bogus'],
    ['migrate', '--wait', 'soon'],
    ['migrate', '--wait', '-1s'],
    ['migrate', '--max-ttl', '999ms'],
    ['migrate', '--down', '0'],
    ['migrate', '--down', 'all'],
    ['migrate', '--check', '--down', '1'],
    ['migrate', '--check', '--grant', 'x'],
    ['migrate', '--sql', '--check'],
    ['migrate', '--sql', '--to', `${latestVersion + 1}`],
    ['migrate', '--from', '1'],
    ['migrate', '--schema', ''],
    ['migrate', '--url', 'postgres://user:secret@[bad/x'],
    ['migrate', '--ulr=postgres://user:secret@host/x'],
    ['postgres://user:secret@host/x'],
    ['run'],
    ['run', 'k'],
    ['run', 'k', '--'],
    ['run', '', '--', 'echo'],
    ['run', 'k', '--bogus', '--', 'echo'],
    ['schedule', 's', '* * * * *'],
    ['schedule', 's', '--', 'echo'],
    ['schedule', 's', '61 * * * *', '--', 'echo'],
    ['schedule', '', '* * * * *', '--', 'echo'],
    ['schedule', 's', '* * * * *', '--timezone', 'Mars', '--', 'echo'],
    ['schedule', 's', '* * * * *', '--missed', 'some', '--', 'echo'],
    ['schedule', 's', '* * * * *', '--overlap', 'all', '--', 'echo'],
    ['schedule', 's', '* * * * *', '--timeout', '0', '--', 'echo'],
    ['schedule', 's', '* * * * *', '--attempts', '0', '--', 'echo'],
    ['schedule', 's', '* * * * *', '--ttl', '1ms', '--', 'echo'],
    ['schedules', 's'],
    ['status', 'k'],
    ['inspect'],
    ['inspect', ''],
    ['release', 'k'],
    ['release', 'k', '--reason', ' '],
    ['release', 'k', '--reason', 'x', '--token', '-1'],
    ['health', '--timeout', 'soon'],
    ['base', '--raise'],
    ['base', '--reason', 'x'],
    ['base', '--raise', '--reason', ''],
    ['run', 'k', '--ttl', 'soon', '--', 'echo'],
    ['run', 'k', '--ttl', '999ms', '--', 'echo'],
    ['run', 'k', '--grace', '-1s', '--', 'echo'],
    ['run', 'k', '--timeout', 'soon', '--', 'echo'],
    ['run', 'k', '--shared', '--permits', '1/3', '--', 'echo'],
    ...['', '3', '0/3', '4/3', '1/0', '1/', '/3', '1.5/3', '-1/3', '1/2147483648', 'one/three'].map(
      permits => [...['run', 'k', `--permits=${permits}`, '--', 'echo']],
    ),
    ['run', 'k', '--timeout', '1s', '--no-wait', '--', 'echo'],
    ['run', 'k', '--schema', '', '--', 'echo'],
    ['elect'],
    ['elect', 'e'],
    ['elect', '', '--', 'echo'],
    ['elect', 'e', '--ttl', 'soon', '--', 'echo'],
    ['elect', 'e', '--timeout', 'soon', '--', 'echo'],
    ['elect', 'e', '--shared', '--', 'echo'],
    ['elect', 'e', `--value=${'x'.repeat(899)}`, '--', 'echo'],
    ['leader'],
    ['leader', ''],
    ['leader', 'e', 'f'],
    ['run', 'k', '--dev', '--url', 'postgres://user:secret@host/x', '--', 'echo'],
    ['run', 'k', '--url', 'postgres://user:secret@[bad/x', '--', 'echo'],
  ].map(args => [args.join(' '), args] as const),
)('%s', async (_, args) => {
  const ran = await fencepost(args, { DATABASE_URL })
  expect(ran).toMatchObject({ code: 64, out: '' })
  expect(ran.errors).not.toBe('')
  expect(ran.errors).not.toContain('secret')
  expect(ran.errors).not.toContain('    at ')
})

test('run: help', async () => {
  const ran = await fencepost(['run', '--help'])
  expect(ran).toMatchObject({ code: 0, errors: '' })
  for (const flag of ['--ttl', '--timeout', '--no-wait', '--grace', '--foreground', '--dev', '--json'])
    expect(ran.out).toContain(flag)
})

test('help is not', async () => {
  expect(await fencepost(['--help'])).toMatchObject({ code: 0, errors: '' })
  const ran = await fencepost(['migrate', '--help'])
  expect(ran).toMatchObject({ code: 0, errors: '' })
  for (const flag of ['--check', '--wait', '--sql', '--grant', '--grant-operator', '--max-ttl', '--down']) {
    expect(ran.out).toContain(flag)
  }
})

test('version is the package’s', async () => {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  expect(await fencepost(['--version'])).toEqual({ code: 0, out: `${version}\n`, errors: '' })
})
