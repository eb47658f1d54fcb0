import { lockConformance } from './lock-conformance.ts'
import { ways } from './ways.ts'

lockConformance('a pool', ways['a pool'])
