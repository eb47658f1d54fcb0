import { basename } from 'node:path'
import { escapeIdentifier } from 'pg'
import { expect, test } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import { freePort } from '../../src/testing/port.ts'
import { createDatabase } from '../support/database.ts'
import { clientOptions } from '../support/twist.ts'
import { until } from '../support/until.ts'
import { fencepost } from './fencepost.ts'
import { RunStage } from './run.ts'

const stage = new RunStage()

/** Who is in line. */
const waiters = () => `select from ${escapeIdentifier(stage.db.schema)}.waiters`

/** Runs a shell script under the key. */
const sh = (script: string, flags: readonly string[] = [], key = 'k') =>
  fencepost(['run', key, '--schema', stage.db.schema, ...flags, '--', 'sh', '-c', script], {
    DATABASE_URL: stage.db.twistedUrl,
  })

test('the command holds the lock while it runs, knows key and token, and gives it back', async () => {
  const run = stage.run({ key: 'größe 42' })
  const { key, token } = await run.up()
  expect(key).toBe('größe 42')
  await using fp = new Fencepost(clientOptions(stage.db))
  expect(await fp.tryAcquire('größe 42')).toBeNull()
  // Its name, and none of its arguments.
  expect((await fp.query()).held).toMatchObject([{ key: 'größe 42', label: basename(process.execPath) }])
  run.send('exit', { code: 0 })
  expect(await run.exit).toBe(0)
  const lock = await fp.tryAcquire('größe 42')
  expect(lock?.token).toBeGreaterThan(BigInt(token as string))
  expect(run.log).toEqual([])
  await fp.close()
  await stage.nothingLeft()
})

test('two wait for each other in line', async () => {
  const first = stage.run({ key: 'k' })
  const { token } = await first.up()
  const second = stage.run({ key: 'k' })
  await until(async () => (await stage.db.query(waiters())).length === 1)
  expect(second.said).toEqual([])
  first.send('exit', { code: 0 })
  const next = await second.up()
  expect(BigInt(next.token as string)).toBeGreaterThan(BigInt(token as string))
  second.send('exit', { code: 0 })
  expect([await first.exit, await second.exit]).toEqual([0, 0])
})

test("stdin, stdout and stderr are the command's", async () => {
  const run = stage.run()
  await run.up()
  run.send('echo', { text: 'through the pipe' })
  expect(await run.message('echoed')).toMatchObject({ text: 'through the pipe' })
  run.send('flood', { bytes: 2 ** 20 })
  await run.message('flooded')
  await until(() => run.log.some(line => line.length === 2 ** 20))
  run.send('exit', { code: 0 })
  expect(await run.exit).toBe(0)
})

test("what the wrapper says does not make the command's stderr non-blocking", async () => {
  // A write to a pipe that nobody reads yet waits; on a non-blocking one it would fail, and cat with it.
  const ran = await sh('head -c 3000000 /dev/zero | cat >&2; echo $?', ['--json'])
  expect(ran).toMatchObject({ code: 0, out: '0\n' })
  expect(ran.errors.replaceAll(/[^\0]/g, '')).toHaveLength(3_000_000)
})

test.each([
  ['exit 0', 0],
  ['exit 1', 1],
  ['exit 75', 75],
  ['exit 255', 255],
  ['kill -TERM $$', 143],
  ['kill -KILL $$', 137],
  ['kill -HUP $$', 129],
])('%s is %i', async (script, code) => {
  expect(await sh(script)).toEqual({ code, out: '', errors: '' })
})

test('a command that is not there is 127, one that cannot be executed 126, and the lock is free again', async () => {
  const env = { DATABASE_URL: stage.db.twistedUrl }
  const run = (file: string) => fencepost(['run', 'k', '--schema', stage.db.schema, '--', file], env)
  const missing = await run('no-such-command')
  expect(missing).toMatchObject({ code: 127, out: '' })
  expect(missing.errors).toContain('no-such-command')
  expect(await run('/')).toMatchObject({ code: 126, out: '' })
  await stage.nothingLeft()
})

test('--no-wait and --timeout on a key that is held are 75, and the command is not started', async () => {
  await using fp = new Fencepost(clientOptions(stage.db))
  await fp.acquire('k')
  for (const flags of [['--no-wait'], ['--timeout', '0'], ['--timeout', '300ms']]) {
    const ran = await sh('echo started', flags)
    expect(ran).toMatchObject({ code: 75, out: '' })
    expect(ran.errors).toMatch(/^fencepost: "k" was not free within \d+ ms\n$/)
  }
  const json = await sh('echo started', ['--no-wait', '--json'])
  expect(json).toMatchObject({ code: 75, out: '' })
  expect(JSON.parse(json.errors)).toMatchObject({ event: 'error', key: 'k', code: 'timed_out' })
  await fp.close()
  await stage.nothingLeft()
})

test('--no-wait on a free key runs', async () => {
  expect(await sh('echo ran', ['--no-wait'])).toEqual({ code: 0, out: 'ran\n', errors: '' })
})

test('--json: one line for each thing that happened, on stderr', async () => {
  const ran = await sh('echo "$FENCEPOST_TOKEN"; exit 3', ['--json'])
  const token = ran.out.trim()
  expect(token).toMatch(/^\d+$/)
  expect(
    ran.errors
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line)),
  ).toEqual([
    { event: 'granted', key: 'k', token },
    { event: 'ended', key: 'k', token, code: 3 },
    { event: 'released', key: 'k', token, outcome: 'released' },
  ])
})

test.each(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const)(
  '%s while it waits gives the place up',
  async signal => {
    await using fp = new Fencepost(clientOptions(stage.db))
    await fp.acquire('k')
    const run = stage.run({ key: 'k' })
    await until(async () => (await stage.db.query(waiters())).length === 1)
    const code = { SIGTERM: 143, SIGINT: 130, SIGHUP: 129, SIGQUIT: 131 }[signal]
    expect(await run.kill(signal)).toBe(code)
    expect(run.said).toEqual([])
    expect(await stage.db.query(waiters())).toEqual([])
  },
)

test('a database without the schema is 78, one that cannot be reached 69', async () => {
  const bare = await createDatabase({ migrate: false })
  try {
    const ran = await fencepost(['run', 'k', '--', 'echo', 'started'], { DATABASE_URL: bare.url })
    expect(ran).toMatchObject({ code: 78, out: '' })
    expect(ran.errors).toContain('fencepost migrate')
    expect(ran.errors).not.toContain('    at ')
  } finally {
    await bare.drop()
  }
  const url = `postgres://user:secret@127.0.0.1:${await freePort()}/x`
  const away = await fencepost(['run', 'k', '--url', url, '--', 'echo', 'started'])
  expect(away).toMatchObject({ code: 69, out: '' })
  expect(away.errors).not.toContain('secret')
})

test('a place in line that is lost is 75, and the command is not started', async () => {
  await using fp = new Fencepost(clientOptions(stage.db))
  await fp.acquire('k')
  const run = stage.run({ key: 'k', flags: ['--ttl', '2s', '--json'] })
  await until(async () => (await stage.db.query(waiters())).length === 1)
  const schema = escapeIdentifier(stage.db.schema)
  await stage.db.query(
    `update ${schema}.sessions set expires_at = '-infinity' where id = (select session from ${schema}.waiters)`,
  )
  expect(await run.exit).toBe(75)
  expect(run.said).toEqual([])
  expect(run.notes).toEqual([expect.objectContaining({ event: 'error', key: 'k', code: 'lost' })])
})

test('what nobody foresaw is 70, and the command is not started', async () => {
  const own = await createDatabase()
  try {
    const schema = escapeIdentifier(own.schema)
    await own.query(`create function ${schema}.fail() returns trigger language plpgsql
      as $$ begin raise 'the disk speaks'; end $$`)
    await own.query(`create trigger fail before insert on ${schema}.sessions
      for each row execute function ${schema}.fail()`)
    const args = ['run', 'k', '--schema', own.schema, '--', 'echo', 'started']
    const ran = await fencepost(args, { DATABASE_URL: own.url })
    expect(ran).toMatchObject({ code: 70, out: '' })
    expect(ran.errors).toContain('the disk speaks')
  } finally {
    await own.drop()
  }
})

test('without a /bin/sh the command runs, and it is said that nothing guards it', async () => {
  const preload = `
    import processes from 'node:child_process'
    import { syncBuiltinESMExports } from 'node:module'
    const { spawn } = processes
    processes.spawn = (file, ...rest) => spawn(file === '/bin/sh' ? '/no/such/sh' : file, ...rest)
    syncBuiltinESMExports()`
  const args = ['run', 'k', '--schema', stage.db.schema, '--', 'echo', 'ran']
  const ran = await fencepost(args, {
    DATABASE_URL: stage.db.twistedUrl,
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}`,
  })
  expect(ran).toMatchObject({ code: 0, out: 'ran\n' })
  expect(ran.errors).toMatch(/^fencepost: .*ENOENT: if this is killed, the command goes on\n/)
})

test('--json: a key that looks like a password in a connection string breaks no line', async () => {
  const key = 'http://shop:8080/x@y'
  await using fp = new Fencepost(clientOptions(stage.db))
  await fp.acquire(key)
  const { code, errors } = await sh('true', ['--no-wait', '--json'], key)
  expect(code).toBe(75)
  expect(JSON.parse(errors)).toMatchObject({ event: 'error', code: 'timed_out', message: expect.any(String) })
})
