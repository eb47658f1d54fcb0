import { acquire, at } from '../calls.ts'
import type { Program } from '../program.ts'
import { inTurn, takeAndRelease } from './scripts.ts'

/** The token base rises while tokens are drawn: whoever is granted later has the greater one. */
export const incarnations: readonly Program[] = [
  {
    name: 'a new incarnation is seen while others draw tokens',
    sessions: { S1: 60, S2: 60 },
    incarnations: true,
    key: 'k',
    actors: [
      { name: 'A', script: () => takeAndRelease('S1', 'k', 'r11') },
      { name: 'B', script: () => inTurn(acquire('S2', [at('k', 'r21')], { seen: 2 ** 32 })) },
    ],
  },
]
