// With --json an error is one object, too; the exit code is the same as without.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../../src/testing/port.ts'
import { openSession } from '../database/open-session.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { fencepost, type Ran } from './fencepost.ts'

let db: TestDatabase
let dead: string
beforeAll(async () => {
  db = await createDatabase()
  dead = `postgres://user:secret@127.0.0.1:${await freePort()}/x`
})
afterAll(() => db.drop())

/** The one object that it said. */
function only(text: string): Record<string, unknown> {
  expect(text).toMatch(/^\{.*\}\n$/)
  expect(text).not.toContain('secret')
  return JSON.parse(text)
}

const looking = [
  ['status'],
  ['inspect', 'k'],
  ['release', 'k', '--reason', 'x'],
  ['base'],
  ['health'],
  ['leader', 'e'],
  ['schedules'],
  ['migrate'],
  ['migrate', '--check'],
].map(args => [args.join(' '), args] as const)

/** Their stdout is the command's. */
const running = [
  ['run', 'k'],
  ['elect', 'e'],
  ['schedule', 's', '* * * * *'],
].map(args => [args.join(' '), args] as const)

describe.each(looking)('%s', (_, args) => {
  const run = (...more: string[]): Promise<Ran> => fencepost([...args, '--json', ...more])

  test('a server that does not answer', async () => {
    const ran = await run('--url', dead)
    expect(ran).toMatchObject({ code: 69, errors: '' })
    expect(only(ran.out).error).toEqual({ code: 'unreachable', message: expect.stringContaining('database') })
  })

  test('no database named, and an option that there is not', async () => {
    for (const more of [[], ['--bogus=postgres://user:secret@host/x']]) {
      const ran = await run(...more)
      expect(ran).toMatchObject({ code: 64, errors: '' })
      expect(only(ran.out)).toEqual({
        error: { code: 'usage', message: expect.not.stringMatching(/^error/) },
      })
    }
  })
})

describe.each(running)('%s', (_, args) => {
  const run = (...more: string[]): Promise<Ran> =>
    fencepost([...args, '--json', ...more, '--', 'echo', 'ran'])

  test('a server that does not answer', async () => {
    const ran = await run('--url', dead)
    expect(ran).toMatchObject({ code: 69, out: '' })
    expect(only(ran.errors)).toMatchObject({ event: 'error', key: args[1], code: 'unreachable' })
  })

  test('no database named, and an option that there is not', async () => {
    for (const more of [[], ['--bogus=postgres://user:secret@host/x']]) {
      const ran = await run(...more)
      expect(ran).toMatchObject({ code: 64, out: '' })
      expect(only(ran.errors)).toEqual({ event: 'error', code: 'usage', message: expect.any(String) })
    }
  })
})

test('--json after -- is the command’s', async () => {
  const ran = await fencepost(['run', 'k', '--', 'echo', '--json'])
  expect(ran).toMatchObject({ code: 64, out: '' })
  expect(ran.errors).toMatch(/^error: no database named/)
})

test('a schema that is not there is 78', async () => {
  const ran = await fencepost(['status', '--json', '--schema', 'elsewhere', '--url', db.url])
  expect(ran).toMatchObject({ code: 78, errors: '' })
  expect(only(ran.out)).toEqual({ error: { code: 'not_migrated', message: expect.any(String) } })
})

test('what the database advises is the hint', async () => {
  const close = await openSession(db)
  try {
    const args = ['migrate', '--down', '1', '--json', '--schema', db.schema, '--url', db.url]
    const ran = await fencepost(args)
    expect(ran.code).toBe(1)
    expect(only(ran.out)).toEqual({
      error: {
        code: 'migration_refused',
        message: expect.stringContaining('sessions are alive'),
        hint: expect.any(String),
      },
    })
  } finally {
    await close()
  }
})
