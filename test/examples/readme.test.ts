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
