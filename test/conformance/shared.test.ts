import { shared, waysOfKinds } from './kinds.ts'
import { lockConformance } from './lock-conformance.ts'
import { ways } from './ways.ts'

for (const way of waysOfKinds) lockConformance(`a shared lock, and writers, over ${way}`, ways[way], shared)
