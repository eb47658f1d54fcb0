import { describe, expect, test } from 'vitest'
import { exitCode } from '../../src/cli/exit-codes.ts'
import { read, section, tableRows } from './documents.ts'

const document = read('docs/cli.md')

describe('docs/cli.md', () => {
  test.each([
    ['`fencepost run`', ['run/verb.ts'], 6],
    ['`fencepost migrate`', ['migrate.ts'], 9],
    ['Looking, and taking by hand', ['release.ts', 'health.ts', 'base.ts'].map(file => `sight/${file}`), 5],
  ])('%s: names the options', (title, files, least) => {
    const text = section(document, title)
    const source = files.map(file => read(`src/cli/${file}`)).join('')
    const options = [...source.matchAll(/(?:[oO]ption\()\s*'(--[a-z-]+)/g)].map(([, name]) => String(name))
    expect(options.length).toBeGreaterThanOrEqual(least)
    for (const name of options) expect(text).toContain(name)
  })

  test('names the verbs', () => {
    const verbs = [...read('src/cli/command.ts').matchAll(/addCommand\((\w+?)(?:Verb|Command)\(/g)]
    expect(verbs.length).toBeGreaterThan(6)
    for (const [, verb] of verbs) expect(document).toContain(`\`fencepost ${verb}`)
  })

  test('names every exit code', () => {
    const documented = tableRows(document).flatMap(([codes = '']) => codes.split(', ').map(Number))
    for (const code of Object.values(exitCode)) expect([...documented, exitCode.signalled]).toContain(code)
  })
})
