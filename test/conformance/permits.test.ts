import { permits, waysOfKinds } from './kinds.ts'
import { lockConformance } from './lock-conformance.ts'
import { ways } from './ways.ts'

for (const way of waysOfKinds) lockConformance(`3 of 5 permits, over ${way}`, ways[way], permits(3, 5))
