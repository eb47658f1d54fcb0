import { lockConformance } from './lock-conformance.ts'
import { ways } from './ways.ts'

lockConformance('a pool, listening elsewhere', ways['a pool, listening elsewhere'])
