import { permits, waysOfKinds } from './kinds.ts'
import { lockConformance } from './lock-conformance.ts'
import { ways } from './ways.ts'

for (const way of waysOfKinds)
  lockConformance(`the permit of a semaphore, over ${way}`, ways[way], permits(1, 1))
