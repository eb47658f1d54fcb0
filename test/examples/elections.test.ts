import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import { Child } from '../support/child.ts'
import { createDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { blocks, read, section } from './documents.ts'
import { Project } from './project.ts'

const { judge } = await import(new URL('../../examples/leader/findings.mjs', import.meta.url).href)
const main = fileURLToPath(new URL('../../examples/main.mjs', import.meta.url))

test('leader: killed and replaced, asked to end and replaced', { timeout: 90_000 }, async () => {
  const child = spawn(process.execPath, [main, 'leader'], { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', text => (said += text))
  const code = await new Promise(resolve => child.once('close', resolve))
  expect({ code, said }).toMatchObject({ code: 0 })
  expect(said.match(/^ {2}yes /gm)).toHaveLength(5)
})

describe('the findings', () => {
  const evidence = {
    terms: [
      { pid: 1, token: 5n, at: 0 },
      { pid: 2, token: 7n, at: 3_500 },
      { pid: 3, token: 8n, at: 4_000 },
    ],
    killed: { pid: 1, at: 500 },
    asked: { pid: 2, at: 3_800 },
    written: [
      { pid: 1, token: '5' },
      { pid: 2, token: '7' },
      { pid: 3, token: '8' },
    ],
    ttl: 3_000,
  }
  const failed = (changes: object) =>
    judge({ ...evidence, ...changes })
      .map(({ ok }: { ok: boolean }, i: number) => (ok ? -1 : i))
      .filter((i: number) => i >= 0)

  test.each([
    ['all is well', {}, []],
    ['only two led', { terms: evidence.terms.slice(0, 2) }, [0, 2, 4]],
    ['a token fell', { terms: evidence.terms.toReversed() }, [0, 1]],
    ['the killed one was replaced late', { killed: { pid: 1, at: -600 } }, [1]],
    ['the one that was asked kept the others waiting', { asked: { pid: 2, at: 2_000 } }, [2]],
    ['an older leader wrote late', { written: evidence.written.toReversed() }, [3]],
    ['somebody wrote under another’s term', { written: [{ pid: 9, token: '7' }] }, [4]],
    ['nobody wrote', { written: [] }, [3]],
  ])('%s', (_, changes, found) => {
    expect(failed(changes)).toEqual(found)
  })
})

describe('thirty lines of docs/elections.md', () => {
  const [code = ''] = blocks(section(read('docs/elections.md'), 'Thirty lines'), 'js')

  test('are about thirty', () => {
    const lines = code.split('\n').filter(line => line.trim() !== '')
    expect(lines.length).toBeGreaterThan(20)
    expect(lines.length).toBeLessThanOrEqual(33)
  })

  test('lead when pasted into a file, tell who does, and end at SIGTERM', async () => {
    const db = await createDatabase({ migrate: false })
    try {
      using project = new Project(['pg'])
      project.write('pasted.mjs', code)
      await using pasted = new Child(pathToFileURL(join(project.folder, 'pasted.mjs')), {
        env: { DATABASE_URL: db.url },
      })
      await until(() => pasted.log.some(line => line.includes('leads since')))
      await using fp = new Fencepost({ connectionString: db.url })
      const leader = await fp.election('reporter').leader()
      expect(leader?.value).toEqual({ pid: pasted.pid })
      const rows = () => db.query<{ token: string }>('select distinct token from reports')
      await until(async () => (await rows()).length > 0)
      expect(await rows()).toEqual([{ token: String(leader?.token) }])
      expect(await pasted.kill('SIGTERM')).toBe(0)
      expect(pasted.log[0]).toBe('nobody leads')
      expect(pasted.log).toContain(`${pasted.pid} leads, token ${leader?.token}`)
      expect(pasted.log.join()).not.toContain('Warning')
      expect(await fp.election('reporter').leader()).toBeNull()
    } finally {
      await db.drop()
    }
  })
})
