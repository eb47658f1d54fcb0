import { permits } from './kinds.ts'
import { lockConformance } from './lock-conformance.ts'
import { ways } from './ways.ts'

for (const way of ['a pool', 'a pool, without listening', 'a query function'] as const)
  lockConformance(`the permit of a semaphore, over ${way}`, ways[way], permits(1, 1))
