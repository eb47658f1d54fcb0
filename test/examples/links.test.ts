import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { read, root } from './documents.ts'

const { scripts } = JSON.parse(read('package.json'))

describe.each([
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'docs/reference.md',
  'docs/protocol.md',
  'docs/cli.md',
  'docs/sharing.md',
  'docs/guarding.md',
  'docs/shutdown.md',
  'docs/elections.md',
  'docs/choosing-a-ttl.md',
  'docs/high-availability.md',
  'bench/README.md',
])('%s', document => {
  const text = read(document)

  test('leads to files and headings that are there', () => {
    for (const [, target] of text.matchAll(/\]\((?!https?:)([^)]+)\)/g)) {
      const [file = '', anchor] = String(target).split('#')
      const path = file === '' ? document : join(dirname(document), file)
      expect(existsSync(`${root}${path}`), `${target} is not there`).toBe(true)
      if (anchor) expect(anchors(read(path))).toContain(anchor)
    }
  })

  test('names scripts that are there', () => {
    for (const [, name] of text.matchAll(/npm run ([a-z:-]+)/g))
      expect(scripts).toHaveProperty([String(name)])
  })
})

function anchors(document: string): string[] {
  return [...document.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    String(heading)
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  )
}
