import { describe, expect, test } from 'vitest'
import { example } from '../support/example.ts'

const { verdict } = await import(new URL('../../examples/paused-holder/verdict.mjs', import.meta.url).href)

test('fenced-store: the stale write is refused', { timeout: 60_000 }, async () => {
  const { code, said } = await example('fenced-store')
  expect(code, said).toBe(0)
  expect(said).toContain('stale_token')
})

test('last-item: each way sells it once', { timeout: 90_000 }, async () => {
  const { code, said } = await example('last-item')
  expect(code, said).toBe(0)
  expect(said.match(/ 1 +\d+ ms/g)).toHaveLength(4)
})

test('paused-holder: the exact ways lose nothing, even in a short run', { timeout: 120_000 }, async () => {
  const { code, said } = await example('paused-holder', '--seconds', '3')
  expect([0, 2], said).toContain(code)
  expect(said.match(/ 0 +\d+ {3}exact/g), said).toHaveLength(2)
})

describe('the verdict over a paused holder', () => {
  const none = { acknowledged: 9, lost: 0 }
  const figures = {
    bare: { acknowledged: 9, lost: 2 },
    alive: none,
    'fenced write': none,
    'fenced entry': none,
    transaction: none,
  }

  test.each([
    ['the bare lease lost some, the exact ways none', {}, 0, /keep a holder out/],
    [
      'a way that is not exact lost some, too',
      { alive: { acknowledged: 9, lost: 3 } },
      0,
      /keep a holder out/,
    ],
    [
      'more was written than acknowledged',
      { transaction: { acknowledged: 9, lost: -1 } },
      0,
      /keep a holder out/,
    ],
    ['the fence lost one', { 'fenced entry': { acknowledged: 9, lost: 1 } }, 1, /^NOT exact: fenced entry$/],
    [
      'an exact way lost one, and the bare lease none',
      { bare: none, transaction: { acknowledged: 9, lost: 1 } },
      1,
      /^NOT exact: transaction$/,
    ],
    ['the bare lease lost none', { bare: none }, 2, /proves nothing/],
    [
      'an exact way did nothing',
      { transaction: { acknowledged: 0, lost: 0 } },
      2,
      /nothing is shown, of: transaction/,
    ],
  ])('%s', (_, changed, code, what) => {
    const shown = verdict({ ...figures, ...changed })
    expect(shown).toEqual({ code, what: expect.stringMatching(what) })
  })
})

test('no such example, no such length', { timeout: 60_000 }, async () => {
  expect(await example('nothing')).toMatchObject({ code: 64, said: expect.stringContaining('paused-holder') })
  expect(await example('paused-holder', '--seconds', 'many')).toMatchObject({ code: 64 })
})
