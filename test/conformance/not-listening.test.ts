import { lockConformance } from './lock-conformance.ts'
import { ways } from './ways.ts'

lockConformance('a pool, without listening', ways['a pool, without listening'])
