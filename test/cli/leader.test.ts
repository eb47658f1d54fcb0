// fencepost leader: who leads, once or for as long as somebody reads.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { clientOptions } from '../support/twist.ts'
import { until } from '../support/until.ts'
import { fencepost, type Ran } from './fencepost.ts'
import { main } from './run.ts'

let db: TestDatabase
let fp: Fencepost
beforeAll(async () => {
  db = await createDatabase()
})
afterAll(() => db.drop())
beforeEach(() => {
  fp = new Fencepost({ ...clientOptions(db), owner: 'the leader', ttl: '9s' })
})
afterEach(() => fp.close())

const run = (...args: string[]): Promise<Ran> =>
  fencepost(['leader', ...args, '--schema', db.schema], { DATABASE_URL: db.twistedUrl })

test('nobody is 1', async () => {
  expect(await run('e')).toEqual({ code: 1, out: 'nobody leads e\n', errors: '' })
  const ran = await run('e', '--json')
  expect(ran).toMatchObject({ code: 1, errors: '' })
  expect(JSON.parse(ran.out)).toEqual({ schema: db.schema, name: 'e', leader: null })
})

test('who leads, for people and as JSON', async () => {
  const election = fp.election('e', { value: { url: 'http://here' } })
  const { token } = await election.campaign()
  const ran = await run('e')
  expect(ran).toMatchObject({ code: 0, errors: '' })
  for (const line of [
    /^name +e$/m,
    /^value +\{"url":"http:\/\/here"\}$/m,
    /^owner +the leader$/m,
    /^ttl +9\.0s$/m,
    new RegExp(`^identity +${election.identity}$`, 'm'),
    new RegExp(`^token +${token}$`, 'm'),
  ])
    expect(ran.out).toMatch(line)
  const json = await run('e', '--json')
  expect(json).toMatchObject({ code: 0, errors: '' })
  expect(JSON.parse(json.out)).toMatchObject({
    name: 'e',
    leader: {
      identity: election.identity,
      value: { url: 'http://here' },
      token: String(token),
      owner: 'the leader',
      ttl: 9_000,
      since: expect.stringMatching(/^\d{4}-.*Z$/),
      renewedAt: expect.stringMatching(/^\d{4}-.*Z$/),
    },
  })
})

test('a value cannot write to the terminal', async () => {
  await fp.election('e', { value: 'a\u001b[2Jb\n\u202ec' }).campaign()
  const { out } = await run('e')
  expect(out).not.toContain('\u001b')
  expect(out.trimEnd().split('\n')).toHaveLength(8)
})

describe('--watch', () => {
  /** The command, and the lines that it has said. */
  function watch(...args: string[]) {
    const child = spawn(
      process.execPath,
      [fileURLToPath(main), 'leader', 'e', '--watch', '--schema', db.schema, ...args],
      { env: { ...process.env, DATABASE_URL: db.twistedUrl }, stdio: ['ignore', 'pipe', 'inherit'] },
    )
    const ended = once(child, 'close')
    onTestFinished(async () => {
      child.kill('SIGKILL')
      await ended
    })
    const lines: string[] = []
    const reading = createInterface({ input: child.stdout })
    reading.on('line', line => lines.push(line))
    return { child, ended, lines, reading }
  }

  test('a line for each term and each vacancy, until it is ended', async () => {
    const { child, ended, lines } = watch()
    await until(() => lines.length === 1)
    const election = fp.election('e', { value: 'here' })
    const { token } = await election.campaign()
    await until(() => lines.length === 2)
    await election.resign()
    await until(() => lines.length === 3)
    expect([lines[0], lines[2]]).toEqual(['vacant', 'vacant'])
    expect(lines[1]).toMatch(
      new RegExp(`^token ${token}  ${election.identity}  the leader  "here"  since \\d{4}-.*Z$`),
    )
    child.kill('SIGTERM')
    expect(await ended).toEqual([null, 'SIGTERM'])
  })

  test('--json: a line of JSON each', async () => {
    const { token } = await fp.election('e').campaign()
    const { lines } = watch('--json')
    await until(() => lines.length === 1)
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ name: 'e', leader: { token: String(token) } })
  })

  test('ends when nobody reads any more', async () => {
    const { child, ended, lines } = watch()
    await until(() => lines.length === 1)
    child.stdout.destroy()
    const election = fp.election('e')
    const churn = (async () => {
      while (child.exitCode === null && child.signalCode === null) {
        await election.campaign()
        await new Promise(resolve => setTimeout(resolve, 800))
        await election.resign()
      }
    })()
    expect(await ended).toEqual([0, null])
    await churn
  })
})
