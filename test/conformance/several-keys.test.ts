import { several, waysOfKinds } from './kinds.ts'
import { lockConformance } from './lock-conformance.ts'
import { ways } from './ways.ts'

for (const way of waysOfKinds) lockConformance(`two keys, over ${way}`, ways[way], several)
