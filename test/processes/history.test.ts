import { expect, test } from 'vitest'
import { overlaps, readBeliefs } from './history.ts'

const belief = (key: string, token: bigint, from: number, until: number) => ({ key, token, from, until })

test('a later token that begins after the earlier one has ended is in order', () => {
  expect(overlaps([belief('k', 2n, 20, 30), belief('k', 1n, 10, 19), belief('other', 3n, 0, 100)])).toEqual(
    [],
  )
})

test('overlaps, inversions and tokens given twice are found', () => {
  expect(overlaps([belief('k', 1n, 10, 21), belief('k', 2n, 20, 30)])).toHaveLength(1)
  expect(overlaps([belief('k', 2n, 10, 15), belief('k', 1n, 20, 30)])).toHaveLength(1)
  expect(overlaps([belief('k', 1n, 10, 15), belief('k', 1n, 20, 30)])).toHaveLength(1)
})

test('a section that a kill cut short ended with it', () => {
  const said = [
    { name: 'enter', key: 'a', token: '1', at: 10 },
    { name: 'enter', key: 'b', token: '2', at: 12 },
    { name: 'leave', token: '1', at: 15 },
  ]
  expect(readBeliefs(said, 40)).toEqual([belief('a', 1n, 10, 15), belief('b', 2n, 12, 40)])
})
