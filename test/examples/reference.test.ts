import { readdirSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { Election } from '../../src/election/election.ts'
import { Term } from '../../src/election/term.ts'
import * as fencepost from '../../src/index.ts'
import { FencepostError } from '../../src/index.ts'
import { Lock } from '../../src/lock/lock.ts'
import { read, root, section, tableRows } from './documents.ts'

const reference = read('docs/reference.md')
const source = read('src/settings.ts') + read('src/election/options.ts')
const code = (cell = ''): string => cell.replaceAll('`', '')

/** An interface of options: each member with the `@default` of its comment. */
function members(name: string): Map<string, string | undefined> {
  const body = source.match(new RegExp(`^export interface ${name} \\{\\n(.*?)^\\}`, 'ms'))?.[1] ?? ''
  const found = [...body.matchAll(/\/\*\*(.*?)\*\/\s+readonly (\w+)\?:/gs)]
  return new Map(
    found.map(([, comment, member]) => [String(member), comment?.match(/@default ([^\n*,]*)/)?.[1]?.trim()]),
  )
}

describe('docs/reference.md', () => {
  test.each([
    ['FencepostOptions', '`new Fencepost(options)`'],
    ['AcquireOptions', 'Its methods'],
    ['ElectionOptions', '`Election`'],
  ])('names the options of %s, and their defaults', (name, title) => {
    const text = section(reference, title)
    const documented = new Map(tableRows(text).map(([option, value]) => [code(option), code(value)]))
    const options = members(name)
    expect(options.size).toBeGreaterThan(4)
    for (const [option, value] of options) {
      expect(documented.has(option), `${option} is not in the table`).toBe(true)
      if (value?.startsWith("'") || value === 'true') expect(documented.get(option)).toBe(value)
    }
  })

  test('names every error, with its code', () => {
    const exported = Object.entries(fencepost)
      .filter(([, value]) => typeof value === 'function' && value.prototype instanceof FencepostError)
      .map(([name, value]) => [name, (value as { prototype: FencepostError }).prototype.code])
    const documented = tableRows(section(reference, 'Errors'))
      .slice(1)
      .map(([name, value]) => [code(name), code(value)])
    expect(documented.sort()).toEqual(exported.sort())
  })

  test('names the members of a lock', () => {
    const internal = [
      'constructor',
      'lose',
      'announceShutdown',
      'isOfSeveral',
      'isPassable',
      'ownLevel',
      'ownToken',
      'run',
      'grants',
      'reenter',
    ]
    const names = Object.getOwnPropertyNames(Lock.prototype).filter(name => !internal.includes(name))
    const text = section(reference, '`Lock`')
    expect(names.length).toBeGreaterThan(7)
    for (const name of names) expect(text).toContain(`\`${name}`)
  })

  test('names the members of an election, and of a term', () => {
    const internal = ['constructor', 'lock', 'isCurrent', 'isOpen', 'isFinished', 'over', 'stop', 'finish']
    const text = section(reference, '`Election`')
    for (const type of [Election, Term]) {
      const names = Object.getOwnPropertyNames(type.prototype).filter(name => !internal.includes(name))
      expect(names.length).toBeGreaterThan(2)
      for (const name of names) expect(text).toContain(`\`${name}`)
    }
  })

  test('leads to every SQLSTATE that the migrations raise', () => {
    const files = readdirSync(`${root}migrations`).filter(name => name.endsWith('.sql'))
    const raised = new Set(files.flatMap(name => read(`migrations/${name}`).match(/'FP\d{3}'/g) ?? []))
    const protocol = section(read('docs/protocol.md'), 'SQLSTATEs')
    expect(raised.size).toBeGreaterThan(5)
    for (const state of raised) expect(protocol).toContain(code(state).replaceAll("'", ''))
  })
})
