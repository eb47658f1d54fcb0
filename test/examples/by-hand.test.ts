import { execFileSync } from 'node:child_process'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { blocks, read, section } from './documents.ts'

const [script = ''] = blocks(section(read('README.md'), 'From psql'), 'sql')
const lines = script.trim().split('\n')
const key = 'invoice:42'
const program = process.env.PSQL ?? 'psql'

function hasPsql(): boolean {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

describe('a lock by hand, as in the README', () => {
  let db: TestDatabase
  beforeEach(async () => {
    db = await createDatabase({ schema: 'fencepost' })
  })
  afterEach(() => db.drop())

  test('takes ten lines', () => {
    expect(lines).toHaveLength(10)
  })

  test('each line does what it says', async () => {
    const psql = new Psql(db.url)
    await psql.connect()
    try {
      for (const line of lines.slice(0, 3)) await psql.run(line)
      expect(psql.variables.get('outcome')).toBe('granted')
      expect(await held(db)).toEqual([{ key, token: psql.variables.get('token'), owner: 'by hand' }])
      for (const line of lines.slice(3, 7)) await psql.run(line)
      expect(await db.query('select * from fencepost.fences')).toEqual([
        { resource: key, token: psql.variables.get('token') },
      ])
      const [renewed, released] = [await psql.run(lines[7]), await psql.run(lines[8])]
      expect(renewed).toEqual([{ renewed: true }])
      expect(released).toEqual([{ outcome: 'released' }])
      expect(await held(db)).toEqual([])
      await psql.run(lines[9])
      expect(await db.query('select from fencepost.sessions')).toEqual([])
    } finally {
      await psql.end()
    }
  })

  test.runIf(hasPsql())('psql runs them as they are', async () => {
    const args = ['--no-psqlrc', '--set=ON_ERROR_STOP=1', '--tuples-only', '--no-align', db.url]
    const said = execFileSync(program, args, { input: script, encoding: 'utf8' })
    expect(said.split('\n')).toEqual(expect.arrayContaining(['BEGIN', 'COMMIT', 't', 'released']))
    expect(await db.query('select resource from fencepost.fences')).toEqual([{ resource: key }])
    expect(await db.query('select from fencepost.sessions')).toEqual([])
  })
})

async function held(db: TestDatabase): Promise<unknown[]> {
  return await db.query('select key, token, owner from fencepost.held')
}

/** So much of psql that these lines run without it: variables, and the `\gset` that sets them. */
class Psql {
  readonly variables = new Map<string, string>()
  readonly #client: pg.Client

  constructor(url: string) {
    this.#client = new pg.Client(url)
  }

  async connect(): Promise<void> {
    await this.#client.connect()
  }

  async end(): Promise<void> {
    await this.#client.end()
  }

  async run(line = ''): Promise<Record<string, unknown>[]> {
    const setsVariables = line.endsWith('\\gset')
    const text = line
      .replace(/ *\\gset$/, '')
      .replace(/(?<!:):'(\w+)'/g, (_, name) => pg.escapeLiteral(this.#value(name)))
      .replace(/(?<!:):([a-z]\w*)/g, (_, name) => this.#value(name))
    const { rows } = await this.#client.query(text)
    if (!setsVariables) return rows
    for (const [name, value] of Object.entries(rows[0])) this.variables.set(name, String(value))
    return rows
  }

  #value(name: string): string {
    const value = this.variables.get(name)
    if (value === undefined) throw new Error(`:${name} is not set`)
    return value
  }
}
