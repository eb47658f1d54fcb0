import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { createDatabase } from '../support/database.ts'
import { blocks, read, section, tableRows } from './documents.ts'
import { Project } from './project.ts'

const document = read('docs/schedules.md')
const code = (cell = ''): string => cell.replaceAll('`', '')

test('the lines at the head of docs/schedules.md are about thirty, and work when pasted', async () => {
  const [pasted = ''] = blocks(document, 'js')
  const lines = pasted.split('\n').filter(line => line.trim() !== '')
  expect(lines.length).toBeGreaterThan(20)
  expect(lines.length).toBeLessThanOrEqual(33)
  const db = await createDatabase({ migrate: false })
  try {
    using project = new Project(['pg'])
    project.write('pasted.mjs', pasted)
    const { code, said } = await project.run(process.execPath, ['pasted.mjs'], { DATABASE_URL: db.url })
    expect(said.trim()).toMatch(/^\d{4}-\d\d-\d\dT0[01]:30:00.000Z\n\{ number: 7 \}$/)
    expect(code).toBe(0)
    expect(await db.query('select name from fencepost.schedules')).toEqual([{ name: 'reports' }])
    expect(await db.query('select from fencepost.schedule_nodes')).toEqual([])
    expect(await db.query('select from fencepost.sessions')).toEqual([])
  } finally {
    await db.drop()
  }
})

test('the options of a schedule are all there, with their defaults', () => {
  const source = read('src/schedule/definition.ts')
  const body = source.match(/^export interface ScheduleOptions \{\n(.*?)^\}/ms)?.[1] ?? ''
  const options = [...body.matchAll(/\/\*\*(.*?)\*\/\s+readonly (\w+)\?:/gs)].map(([, comment, name]) => [
    name,
    comment?.match(/@default ([^\n*]*)/)?.[1]?.trim(),
  ])
  const documented = new Map(
    tableRows(section(document, 'Options')).map(([option, value]) => [code(option), code(value)]),
  )
  expect(options.length).toBeGreaterThan(10)
  for (const [name, value] of options) {
    expect(documented.has(name as string), name).toBe(true)
    if (value?.startsWith("'") || /^\d/.test(value ?? '')) expect(documented.get(name as string)).toBe(value)
  }
})

test('cron: three nodes run each second once, and one that is killed is replaced', {
  timeout: 90_000,
}, async () => {
  const script = fileURLToPath(new URL('../../examples/main.mjs', import.meta.url))
  const { exit, said } = await new Promise<{ exit: unknown; said: string }>(resolve => {
    execFile(process.execPath, [script, 'cron'], (error, stdout, stderr) =>
      resolve({ exit: error ? (error.code ?? -1) : 0, said: stdout + stderr }),
    )
  })
  expect(exit, said).toBe(0)
  expect(said.match(/^yes {2}/gm)).toHaveLength(5)
})
