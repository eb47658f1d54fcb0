import { expect, test } from 'vitest'
import { duration, table, visible } from '../../src/cli/table.ts'

test('columns are as wide as what is in them, wide characters counted as such, and no line ends in blanks', () => {
  expect(
    table(
      ['A', 'B'],
      [
        ['漢字', 1n],
        ['x', null],
      ],
    ),
  ).toBe('A     B\n漢字  1\nx     -')
})

test('what would move the cursor, or turn the text around, is spelled out', () => {
  expect(visible('a\u001b\u0007\u0085\u2028\u202e\u200bé 漢 👍')).toBe(
    'a\\u{1b}\\u{7}\\u{85}\\u{2028}\\u{202e}\\u{200b}é 漢 👍',
  )
})

test.each([
  [0, '0ms'],
  [999, '999ms'],
  [1_000, '1.0s'],
  [59_940, '59.9s'],
  [59_999, '59.9s'],
  [60_000, '1m 0s'],
  [3_599_999, '59m 59s'],
  [11_100_000, '3h 5m'],
])('%i is %s', (milliseconds, text) => {
  expect(duration(milliseconds)).toBe(text)
})
