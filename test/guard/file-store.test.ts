import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { FileFencedStore, StaleTokenError } from '../../src/index.ts'

let folder: string
let store: FileFencedStore
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'fencepost-store-'))
  store = new FileFencedStore(join(folder, 'made when needed'))
})
afterEach(() => rm(folder, { recursive: true }))

const text = async (name = 'n') => (await store.read(name))?.toString()

test('reads what was written last; refuses older tokens for reading-to-write and for writing', async () => {
  expect(await store.read('n')).toBeUndefined()
  expect(await store.enter('n', 5n)).toBeUndefined()
  await store.write('n', 5n, 'five')
  await store.write('n', 5n, Buffer.from('five again'))
  expect(await text()).toBe('five again')
  expect((await store.enter('n', 7n))?.toString()).toBe('five again')
  const stale = { code: 'stale_token', resource: 'n', token: 5n, mark: 7n }
  await expect(store.write('n', 5n, 'late')).rejects.toMatchObject(stale)
  await expect(store.enter('n', 5n)).rejects.toBeInstanceOf(StaleTokenError)
  expect(await text()).toBe('five again')
  await store.write('n', 7n, 'seven')
  await store.write('n', 2n ** 63n, '')
  expect(await text()).toBe('')
  expect(await text('other')).toBeUndefined()
})

test('a write that was under way when a newer token came is refused, whenever it wakes', async () => {
  await store.write('n', 1n, 'one')
  const [name] = await readdir(join(folder, 'made when needed'))
  const path = join(folder, 'made when needed', name ?? '')
  // Somebody with token 2 has made his turn, and stands still before the write.
  await mkdir(join(path, '2.1'))
  await store.enter('n', 3n)
  const waking = symlink('anything', join(path, '2.1', 'data'))
  await expect(waking).rejects.toMatchObject({ code: 'EEXIST' })
  for (const token of [3n, 4n, 5n]) await store.write('n', token, String(token))
  // Still closed, after all that may be forgotten was forgotten.
  await expect(symlink('anything', join(path, '2.1', 'data'))).rejects.toMatchObject({ code: 'EEXIST' })
  expect(await text()).toBe('5')
})

test('does not grow with the writes', async () => {
  for (let token = 1n; token <= 30n; token += 1n) {
    await store.enter('n', token)
    await store.write('n', token, String(token))
  }
  const [name] = await readdir(join(folder, 'made when needed'))
  expect(await readdir(join(folder, 'made when needed', name ?? ''))).toEqual(['30.2'])
})

test.each(['..', 'a/b', 'é "%2F', '.hidden', 'x'.repeat(200)])('any name: %s', async name => {
  await store.write(name, 1n, name)
  expect(await text(name)).toBe(name)
  expect(await readdir(folder)).toEqual(['made when needed'])
})

test('bad names and tokens', async () => {
  await expect(store.write('', 1n, '')).rejects.toMatchObject({ code: 'bad_key' })
  await expect(store.read('x'.repeat(201))).rejects.toMatchObject({ code: 'bad_key' })
  for (const token of [0n, -1n, '1', 1]) {
    await expect(store.write('n', token as bigint, '')).rejects.toMatchObject({ code: 'bad_option' })
  }
  expect(() => new FileFencedStore('')).toThrow('folder')
})

test('several processes, tokens in any order: none of the updates that were acknowledged is lost', {
  timeout: 60_000,
}, async () => {
  const script = join(import.meta.dirname, 'file-store-child.mjs')
  const children = await Promise.all(
    [1, 2, 3].map(async () => {
      const child = fork(script, [folder], { execArgv: [] })
      await once(child, 'message')
      return child
    }),
  )
  store = new FileFencedStore(folder)
  let next = 1n
  let [acknowledged, refused] = [0, 0]
  await Promise.all(
    children.map(async child => {
      for (let round = 0; round < 40; round += 1) {
        const answered = once(child, 'message')
        child.send({ token: String(next++), delay: Math.random() * 6 })
        const [answer] = (await answered) as [{ wrote?: number; refused?: string }]
        if (answer.wrote !== undefined) acknowledged += 1
        else {
          expect(answer.refused).toBe('stale_token')
          refused += 1
        }
      }
    }),
  )
  for (const child of children) child.disconnect()
  expect(Number(await text())).toBe(acknowledged)
  expect(acknowledged).toBeGreaterThan(0)
  expect(refused).toBeGreaterThan(0)
})
