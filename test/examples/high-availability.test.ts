import { expect, test } from 'vitest'
import { blocks, read, section } from './documents.ts'

test('the Patroni file of docs/high-availability.md is the one that npm run ha uses', () => {
  const [shown] = blocks(section(read('docs/high-availability.md'), 'Patroni'), 'yaml')
  expect(shown).toBe(read('test/ha/cluster/patroni.yml'))
})
