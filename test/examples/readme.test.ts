import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { blocks, read, section } from './documents.ts'
import { Project } from './project.ts'

const readme = read('README.md')

describe('thirty lines of the README', () => {
  const [code = ''] = blocks(section(readme, 'Thirty lines'), 'js')
  let db: TestDatabase
  beforeAll(async () => {
    db = await createDatabase({ migrate: false })
  })
  afterAll(() => db.drop())

  test('are about thirty', () => {
    const lines = code.split('\n').filter(line => line.trim() !== '')
    expect(lines.length).toBeGreaterThan(20)
    expect(lines.length).toBeLessThanOrEqual(33)
  })

  test('work when pasted into a file, and when run again', async () => {
    using project = new Project(['pg'])
    project.write('pasted.mjs', code)
    for (const times of [1, 2]) {
      const { code, said } = await project.run(process.execPath, ['pasted.mjs'], { DATABASE_URL: db.url })
      expect({ code, said: said.trim(), times }).toEqual({ code: 0, said: '[ 9, 7, 4 ]', times })
    }
    expect(await db.query('select * from stock')).toEqual([{ item: 'chair', amount: 4 }])
    // The locks were given back, and nobody stayed behind.
    expect(await db.query('select from fencepost.locks')).toEqual([])
    expect(await db.query('select from fencepost.sessions')).toEqual([])
  })
})

test('more than one holder, and more than one key, is as the README says', async () => {
  const code = blocks(section(readme, 'Thirty lines'), 'js')[1] ?? ''
  expect(code.split('\n').length).toBeGreaterThan(3)
  const db = await createDatabase({ migrate: false })
  try {
    using project = new Project(['pg'])
    project.write('sharing.mjs', `${prelude}${code}await fp.close()\n`)
    const { code: exit, said } = await project.run(process.execPath, ['sharing.mjs'], {
      DATABASE_URL: db.url,
    })
    expect({ exit, said: said.trim().split('\n') }).toEqual({
      exit: 0,
      said: ['shared price list', 'permits converters', 'exclusive account:7 account:9'],
    })
  } finally {
    await db.drop()
  }
})

const prelude = `
import { Fencepost } from 'fencepost'
const fp = new Fencepost({ connectionString: process.env.DATABASE_URL })
await fp.migrate()
const read = lock => console.log(lock.mode, ...lock.tokens.keys())
const [convert, transfer] = [read, read]
`
