import { lockConformance } from './lock-conformance.ts'
import { ways } from './ways.ts'

lockConformance('a query function, listening elsewhere', ways['a query function, listening elsewhere'])
