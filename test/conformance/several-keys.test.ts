import { several } from './kinds.ts'
import { lockConformance } from './lock-conformance.ts'
import { ways } from './ways.ts'

for (const way of ['a pool', 'a pool, without listening', 'a query function'] as const)
  lockConformance(`two keys, over ${way}`, ways[way], several)
