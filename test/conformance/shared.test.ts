import { shared } from './kinds.ts'
import { lockConformance } from './lock-conformance.ts'
import { ways } from './ways.ts'

for (const way of ['a pool', 'a pool, without listening', 'a query function'] as const)
  lockConformance(`a shared lock, and writers, over ${way}`, ways[way], shared)
