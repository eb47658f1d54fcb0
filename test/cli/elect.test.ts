// fencepost elect: campaigns, runs the command as the leader, resigns. What it has of `run` is tested there.
import { escapeIdentifier } from 'pg'
import { expect, test } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import { clientOptions } from '../support/twist.ts'
import { until } from '../support/until.ts'
import { fencepost } from './fencepost.ts'
import { isAlive, RunStage } from './run.ts'

const stage = new RunStage()
const elect = (name: string, flags: readonly string[] = [], command: readonly string[] = []) =>
  stage.run({ verb: 'elect', key: name, flags, command })

async function leader(name: string) {
  await using fp = new Fencepost(clientOptions(stage.db))
  return await fp.election(name).leader()
}

test('the command runs as the leader, and finds its term and who it is; its exit code is the answer', async () => {
  const run = elect('plain', ['--value', 'http://here', '--ttl', '7s'])
  const { token, key, level, identity } = await run.up()
  expect(await leader('plain')).toMatchObject({
    identity,
    value: 'http://here',
    token: BigInt(String(token)),
    ttl: 7_000,
  })
  expect({ key, level }).toEqual({ key: 'plain', level: token })
  run.send('exit', { code: 5 })
  expect(await run.exit).toBe(5)
  expect(run.log).toEqual([])
  await stage.nothingLeft()
})

test('three of them: one runs at a time, and the next in line when it has ended', async () => {
  const first = elect('three')
  const { token } = await first.up()
  const others = [elect('three'), elect('three')]
  await using fp = new Fencepost(clientOptions(stage.db))
  await until(async () => (await fp.query({ key: 'three' })).pending.length === 2)
  expect(others.map(run => run.said.length)).toEqual([0, 0])
  expect(await first.kill('SIGTERM')).toBe(143)
  await until(() => others.some(run => run.said.length > 0))
  const [second, third] = others[0]?.said.length ? others : others.toReversed()
  expect(third?.said).toEqual([])
  expect(BigInt(String(second?.said[0]?.token))).toBeGreaterThan(BigInt(String(token)))
  second?.send('exit', { code: 0 })
  await third?.up()
  third?.send('exit', { code: 0 })
  expect([await second?.exit, await third?.exit]).toEqual([0, 0])
  await stage.nothingLeft()
})

test('stdin and stdout are the command’s: it can stand in a pipe', async () => {
  const run = elect('pipe')
  await run.up()
  run.send('echo', { text: 'through' })
  expect(await run.message('echoed')).toMatchObject({ text: 'through' })
  run.send('exit', { code: 0 })
  expect(await run.exit).toBe(0)
})

test('SIGTERM reaches the command; one that goes on is left to, and leads on', async () => {
  const run = elect('signal', [], ['stubborn'])
  const { identity } = await run.up()
  process.kill(run.pid, 'SIGTERM')
  await run.message('signal')
  expect(await leader('signal')).toMatchObject({ identity })
  run.send('exit', { code: 0 })
  expect(await run.exit).toBe(0)
})

test('SIGTERM while it is a candidate gives the campaign up, and the command never runs', async () => {
  const first = elect('candidate')
  await first.up()
  const second = elect('candidate')
  await using fp = new Fencepost(clientOptions(stage.db))
  await until(async () => (await fp.query({ key: 'candidate' })).pending.length === 1)
  expect(await second.kill('SIGTERM')).toBe(143)
  expect(second.said).toEqual([])
  expect((await fp.query({ key: 'candidate' })).pending).toEqual([])
  first.send('exit', { code: 0 })
  expect(await first.exit).toBe(0)
})

test('the term is lost: the command is ended, and the exit code is 76', async () => {
  const run = elect('lost', ['--ttl', '4s', '--json'], ['stubborn'])
  const { pid, token } = await run.up()
  await stage.db.query(`update ${escapeIdentifier(stage.db.schema)}.sessions set expires_at = '-infinity'`)
  expect(await run.exit).toBe(76)
  expect(isAlive(pid)).toBe(false)
  expect(run.notes).toContainEqual({ event: 'ending', key: 'lost', reason: 'expired', left: 0 })
  expect(run.notes).toContainEqual({ event: 'released', key: 'lost', token, outcome: 'expired' })
})

test('--timeout: 75, and the command never runs', async () => {
  const first = elect('timeout')
  await first.up()
  const ran = await fencepost(
    ['elect', 'timeout', '--schema', stage.db.schema, '--timeout', '100ms', '--', 'echo', 'ran'],
    { DATABASE_URL: stage.db.twistedUrl },
  )
  expect(ran).toMatchObject({ code: 75, out: '' })
  first.send('exit', { code: 0 })
  expect(await first.exit).toBe(0)
})
