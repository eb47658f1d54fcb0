import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'

const { runFolder } = await import(new URL('folder.mjs', import.meta.url).href)

test('a run has a folder of its own in the one that was asked for, which need not be there', () => {
  const root = mkdtempSync(join(tmpdir(), 'fencepost-folder-'))
  onTestFinished(() => rmSync(root, { recursive: true }))
  const asked = join(root, 'not', 'there')
  const [first, second] = [runFolder(asked, 'run-1'), runFolder(asked, 'run-1')]
  expect([dirname(first), dirname(second)]).toEqual([asked, asked])
  expect([existsSync(first), existsSync(second), first === second]).toEqual([true, true, false])
})

test('and one that nobody has named elsewhere among what is temporary', () => {
  const folder = runFolder(undefined, 'run-1')
  onTestFinished(() => rmSync(folder, { recursive: true }))
  expect([dirname(folder), existsSync(folder)]).toEqual([tmpdir(), true])
})
